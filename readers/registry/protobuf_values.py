"""The messages of a Protobuf schema, and their values as Arrow, in the types of Spark's ``from_protobuf``.

The registry has the source of a schema, and Google's compiler turns it into descriptors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidegate.errors import CorruptDataError, InstallationError, NoMessageError, OptionError, did_you_mean
from tidegate.readers.registry.protoc import compiled
from tidegate.readers.registry.schemas import OF_A_BYTE, RegisteredSchema, memory_of, wanted
from tidegate.readers.registry.wire import message_indexes

_TIMESTAMP = "google.protobuf.Timestamp"
_MOST_LEVELS = 60  # levels of nested messages; Arrow's limit is 64
_MOST_TYPES = 100_000  # a message may be named repeatedly, so a short schema may have many types


class ProtobufSchema:
    """The messages of one schema.

    Raises CorruptDataError if the compiler refuses the schema, and InstallationError if the packages of
    tidegate[registry] are missing.
    """

    def __init__(self, schema: RegisteredSchema) -> None:
        schema.require("protobuf")
        try:
            self._file, descriptors = compiled(schema.text, schema.references)
        except ImportError:
            raise InstallationError(
                "values of Protobuf need packages that are missing: pip install 'tidegate[registry]'"
            ) from None
        self.memory = OF_A_BYTE * descriptors
        self._top = [*self._file.message_types_by_name.values()]

    def message(self, indexes: tuple[int, ...]) -> Any:
        """Return the descriptor of the message at a path of indexes.  Raises CorruptDataError if there is none."""
        descriptor, inner = None, self._top
        for index in indexes:
            if not 0 <= index < len(inner):
                raise CorruptDataError("its schema has no such message")
            descriptor = inner[index]
            inner = descriptor.nested_types
        return descriptor

    def named(self, full_name: str) -> Any:
        """Return the descriptor of a message such as "shop.Order".  Raises NoMessageError if there is none."""
        messages = {message.full_name: message for message in _with_nested(self._top)}
        if full_name not in messages:
            raise NoMessageError(f"the schema has no message {full_name!r}{did_you_mean(full_name, messages)}")
        return messages[full_name]


def messages_of(schema: RegisteredSchema) -> ProtobufSchema:
    """Return the messages of a schema, which is compiled once; raises what ``ProtobufSchema`` raises."""
    messages = schema.decoder("messages", lambda: ProtobufSchema(schema))
    if messages is None:
        raise CorruptDataError("its schema is no Protobuf schema")
    return messages


class ProtobufValues:
    """The values of one schema.

    message: the full name of the wanted message; None: the first one.
    names: the wanted fields; what the others hold is never converted.  None: all.
    zeros_are_null: a number without presence that is zero is null, because Protobuf does not write it.
    kind: the type of a value, a struct.

    Raises CorruptDataError if the schema has no message, or several fields match a name, and NoMessageError if it has
    no such message.  Raises OptionError for a field that Spark cannot hold.
    """

    def __init__(
        self,
        schema: ProtobufSchema,
        message: str | None = None,
        names: Sequence[str] | None = None,
        *,
        zeros_are_null: bool = False,
    ) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._schema, self._zeros_are_null = schema, zeros_are_null
        descriptor = schema.message((0,)) if message is None else schema.named(message)
        self._parse = GetMessageClass(descriptor).FromString
        self.full_name: str = descriptor.full_name
        fields = {field.name: field for field in descriptor.fields}
        self._fields = [fields[name] for name in wanted([*fields], names)]
        self.kind: pa.StructType = _struct(self._fields, (self.full_name,), iter(range(_MOST_TYPES)))
        self.memory = memory_of(self.kind)

    def decode(self, values: Sequence[bytes]) -> pa.StructArray:
        """Return the fields of each value, header included; null if the bytes do not fit the message."""
        rows = [self._decoded(value) for value in values]
        try:
            return pa.array(rows, self.kind)
        except (pa.ArrowInvalid, OverflowError):
            if len(values) == 1:
                return pa.nulls(1, self.kind)
            half = len(values) // 2
            return pa.concat_arrays([self.decode(values[:half]), self.decode(values[half:])])

    def _decoded(self, value: bytes) -> dict[str, Any] | None:
        from google.protobuf.message import DecodeError

        try:
            indexes, begin = message_indexes(value)
            if self._schema.message(indexes).full_name != self.full_name:
                return None
            return self._row(self._parse(value[begin:]), self._fields)
        except (ValueError, IndexError, CorruptDataError, DecodeError):
            return None

    def _row(self, message: Any, fields: Sequence[Any]) -> dict[str, Any]:
        return {field.name: self._value(message, field) for field in fields}

    def _value(self, message: Any, field: Any) -> Any:
        if field.has_presence and not message.HasField(field.name):
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


def _with_nested(messages: list[Any]) -> list[Any]:
    return [nested for message in messages for nested in (message, *_with_nested([*message.nested_types]))]


def _struct(fields: Sequence[Any], within: tuple[str, ...], left: Iterator[int]) -> pa.StructType:
    """Return the type of these fields; ``left`` has an item for each type that there may still be."""
    if len(within) > _MOST_LEVELS:
        raise OptionError(f"the message {within[0]} is nested more deeply than Spark can hold")
    return pa.struct([(field.name, _type(field, within, left)) for field in fields])


def _type(field: Any, within: tuple[str, ...], left: Iterator[int]) -> pa.DataType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return pa.map_(_single(key, within, left), _single(value, within, left))
    kind = _single(field, within, left)
    return pa.list_(kind) if field.is_repeated else kind


def _single(field: Any, within: tuple[str, ...], left: Iterator[int]) -> pa.DataType:
    from google.protobuf.descriptor import FieldDescriptor as Field

    if next(left, None) is None:
        raise OptionError(f"the message {within[0]} has more than {_MOST_TYPES} types")
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return pa.timestamp("us", "UTC")
        if name in within:
            raise OptionError(f"the message {name} contains itself, in {field.full_name}, and Spark has no such type")
        return _struct(field.message_type.fields, (*within, name), left)
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
