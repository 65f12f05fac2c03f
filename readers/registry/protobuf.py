"""The messages of a Protobuf schema, and their values as Arrow, in the types of Spark's ``from_protobuf``.

The registry has the source of a schema.  Google's compiler turns it into descriptors in a process of its own, because
it may abort its process, and Google's library reads values by the numbers of their fields.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import as_file, files
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import (
    ConnectorError,
    CorruptDataError,
    DeadlineError,
    NoMessageError,
    OptionError,
    TidegateError,
    did_you_mean,
    needing,
)
from tidegate.readers.arrow.conform import NO_VALUES, by_halves
from tidegate.readers.registry.client import RegisteredSchema

MOST_S = 120  # for the compiler
_ROOT = "tidegate_registered.proto"
_TIMESTAMP = "google.protobuf.Timestamp"
_MOST_LEVELS = 60  # levels of nested messages; Arrow's limit is 64
_CONFLUENT = {  # what schemas import from Confluent without a reference
    "confluent/meta.proto": """syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }""",
    "confluent/type/decimal.proto": """syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
}


class ProtobufSchema:
    """The messages of one schema.

    Raises CorruptDataError if the compiler refuses the schema, DeadlineError if it does not end, ConnectorError if it
    is killed, and InstallationError if the packages of tidegate[registry] are missing.
    """

    def __init__(self, schema: RegisteredSchema) -> None:
        schema.require("protobuf")
        with needing("registry", "a value of Protobuf"):
            self._file = _compiled(schema.text, dict(schema.references))

    def message(self, indexes: tuple[int, ...]) -> Any:
        """Return the descriptor of the message at a path of indexes.  Raises CorruptDataError if nothing is there."""
        descriptor, inner = None, [*self._file.message_types_by_name.values()]
        for index in indexes:
            if not 0 <= index < len(inner):
                raise CorruptDataError("its schema has no such message")
            descriptor = inner[index]
            inner = descriptor.nested_types
        return descriptor

    def named(self, full_name: str) -> Any:
        """Return the descriptor of a message such as "shop.Order".  Raises NoMessageError for an unknown name."""
        messages = {message.full_name: message for message in _with_nested(self._file.message_types_by_name.values())}
        if full_name not in messages:
            raise NoMessageError(f"the schema has no message {full_name!r}{did_you_mean(full_name, messages)}")
        return messages[full_name]

    def has_presence(self, full_name: str, path: Sequence[str]) -> bool:
        """Return whether values of a message show that a field of it, or of its messages, is not set."""
        *outer, last = path
        message = self.named(full_name)
        for name in outer:
            message = message.fields_by_name[name].message_type
        return bool(message.fields_by_name[last].has_presence)


class ProtobufValues:
    """Decodes values of one message, whichever version of its schema has written them.

    message: the descriptor.
    names: the wanted fields; what the others hold is never converted.  None: all that Spark can hold.
    zeros_are_null: a number without presence that is zero is null, because Protobuf does not write it.
    kind: the type of a value, a struct.
    unreadable: the fields that Spark cannot hold, and why; they are not in ``kind``.

    Raises OptionError for a wanted field that Spark cannot hold.
    """

    def __init__(self, message: Any, names: Sequence[str] | None = None, *, zeros_are_null: bool = False) -> None:
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        self._message = GetMessageClass(message)
        self._no_values = (ValueError, DecodeError, *NO_VALUES)
        self._zeros_are_null = zeros_are_null
        fields = {field.name: field for field in message.fields}
        if names is not None:
            fields = {name: field for name, field in fields.items() if name in names}
        kinds: dict[str, pa.DataType] = {}
        self.unreadable: dict[str, TidegateError] = {}
        for name, field in fields.items():
            try:
                kinds[name] = _type(field, (message.full_name,))
            except OptionError as problem:  # noqa: PERF203
                self.unreadable[name] = problem
                if names is not None:
                    raise
        self._fields = [fields[name] for name in kinds]
        self.kind = pa.struct([*kinds.items()])

    def decode(self, values: Sequence[bytes]) -> tuple[pa.StructArray, npt.NDArray[np.bool_]]:
        """Return values, each from its own bytes, and which of these bytes are one; what is not is null."""
        with suppress(*self._no_values):  # or one of them has to be found
            if self._fields:
                return self._by_column(values), np.ones(len(values), np.bool_)
        message = self._message()
        rows = [self._row_of(message, value) for value in values]
        good = np.array([row is not None for row in rows], np.bool_)
        return by_halves(lambda given: pa.array(given, self.kind), rows, good, self.kind)

    def _by_column(self, values: Sequence[bytes]) -> pa.StructArray:
        """Return values by one message that takes their fields in turn: to make one for each would take most time."""
        message = self._message()
        columns: list[list[Any]] = [[] for _ in self._fields]
        takes = [attrgetter(of.name) if self._is_plain(of) else partial(self._value, field=of) for of in self._fields]
        adds = [*zip((column.append for column in columns), takes, strict=True)]
        for value in values:
            message.ParseFromString(value)
            for add, take in adds:
                add(take(message))
        arrays = [pa.array(column, named.type) for column, named in zip(columns, self.kind, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=[*self.kind])

    def _row_of(self, message: Any, value: bytes) -> dict[str, Any] | None:
        try:
            message.ParseFromString(value)
            return self._row(message, self._fields)
        except self._no_values:
            return None

    def _is_plain(self, field: Any) -> bool:
        """Return whether the library's value of a field is that of its column."""
        is_single = field.message_type is None and field.enum_type is None and not field.is_repeated
        return is_single and not field.has_presence and not self._zeros_are_null

    def _row(self, message: Any, fields: Sequence[Any]) -> dict[str, Any]:
        return {field.name: self._value(message, field) for field in fields}

    def _value(self, message: Any, field: Any) -> Any:
        if field.has_presence and not field.has_default_value and not message.HasField(field.name):
            return None
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            return [(key, self._plain(item, inner)) for key, item in value.items()]
        if field.is_repeated:
            return [self._plain(item, field) for item in value]
        return None if self._zeros_are_null and not field.has_presence and not value else self._plain(value, field)

    def _plain(self, value: Any, field: Any) -> Any:
        if field.message_type is not None:
            if field.message_type.full_name == _TIMESTAMP:
                return value.seconds * 1_000_000 + value.nanos // 1000
            return self._row(value, value.DESCRIPTOR.fields)
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            return str(value) if known is None else known.name
        return value


def _compiled(text: str, references: Mapping[str, str]) -> Any:
    """Return the descriptor of a file, in a pool of its own; ``references`` are the files that it imports, by name."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    try:
        known = FileDescriptorSet.FromString(_descriptors(text, references))
        known.DiscardUnknownFields()  # custom options, which nobody reads here
        pool = DescriptorPool()
        for file in known.file:
            pool.Add(file)
        return pool.FindFileByName(_ROOT)
    except (DecodeError, KeyError, TypeError, ValueError):
        raise CorruptDataError("its schema is not a valid Protobuf schema") from None


def _descriptors(text: str, references: Mapping[str, str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tidegate-protobuf-") as name, as_file(files("grpc_tools")) as tools:
        own = Path(name).resolve() / "own"
        for path, content in {**_CONFLUENT, **references, _ROOT: text}.items():
            place = (own / path).resolve()
            if not place.is_relative_to(own):
                raise CorruptDataError(f"its schema refers to {path!r}, which lies outside of it")
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(content, encoding="utf-8")
            except OSError as error:
                raise ConnectorError(f"a schema cannot be written to a temporary folder: {error.strerror}") from None
        target = Path(name) / "descriptors"
        arguments = [f"-I{folder}" for folder in (own, tools / "_proto", *_of_google())]
        try:
            ended = subprocess.run(
                [
                    *(sys.executable, "-m", "grpc_tools.protoc", *arguments),
                    *("--include_imports", f"--descriptor_set_out={target}", str(own / _ROOT)),
                ],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=MOST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DeadlineError(f"the Protobuf compiler does not end within {MOST_S} s") from None
        if ended.returncode == -signal.SIGKILL:  # for want of memory, which says nothing about the schema
            raise ConnectorError("the Protobuf compiler was killed before it ended")
        if ended.returncode:
            raise CorruptDataError("the Protobuf compiler refuses its schema")
        return target.read_bytes()


def _of_google() -> list[Path]:
    """Return the folder with google/type, google/api and others, from the package googleapis-common-protos."""
    spec = find_spec("google.type")
    return [] if spec is None else [Path(place).parent.parent for place in spec.submodule_search_locations or ()]


def _with_nested(messages: Sequence[Any]) -> list[Any]:
    return [nested for message in messages for nested in (message, *_with_nested([*message.nested_types]))]


def _type(field: Any, within: tuple[str, ...]) -> pa.DataType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return pa.map_(_single(key, within), _single(value, within))
    kind = _single(field, within)
    return pa.list_(kind) if field.is_repeated else kind


def _single(field: Any, within: tuple[str, ...]) -> pa.DataType:
    from google.protobuf.descriptor import FieldDescriptor as Field

    if field.message_type is not None:
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return pa.timestamp("us", "UTC")
        if name in within:
            raise OptionError(f"the message {name} contains itself, in {field.full_name}, and Spark has no such type")
        if len(within) > _MOST_LEVELS:
            raise OptionError(f"the message {within[0]} is nested more deeply than Spark can hold")
        return pa.struct([(inner.name, _type(inner, (*within, name))) for inner in field.message_type.fields])
    if field.cpp_type == Field.CPPTYPE_STRING:
        return pa.binary() if field.type == Field.TYPE_BYTES else pa.string()
    return {
        Field.CPPTYPE_INT32: pa.int32(),
        Field.CPPTYPE_INT64: pa.int64(),
        Field.CPPTYPE_UINT32: pa.int64(),
        Field.CPPTYPE_UINT64: pa.decimal128(20),
        Field.CPPTYPE_DOUBLE: pa.float64(),
        Field.CPPTYPE_FLOAT: pa.float32(),
        Field.CPPTYPE_BOOL: pa.bool_(),
        Field.CPPTYPE_ENUM: pa.string(),
    }[field.cpp_type]
