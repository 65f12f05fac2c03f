"""The messages of a Protobuf schema.

The registry has the source of a schema, and Google's compiler turns it into descriptors.  A schema may import the files
of Google and of Confluent without a reference, as in Confluent's clients.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegate.errors import CorruptDataError, NoMessageError, OptionError, did_you_mean
from tidegate.readers.registry.schemas import RegisteredSchema

__all__ = ["TIMESTAMP", "ProtobufSchema"]

TIMESTAMP = "google.protobuf.Timestamp"
_ROOT = "tidegate_registered.proto"


class ProtobufSchema:
    """The messages of one schema.

    Raises CorruptDataError if the compiler refuses the schema, and OptionError if the packages of tidegate[registry]
    are missing.
    """

    def __init__(self, schema: RegisteredSchema) -> None:
        if schema.kind != "PROTOBUF":
            raise CorruptDataError(f"its schema is of the type {schema.kind}, not PROTOBUF")
        self._file = _compiled(schema)
        self._top = [*self._file.message_types_by_name.values()]
        self._classes: dict[tuple[int, ...], Any] = {}

    def message(self, indexes: tuple[int, ...]) -> Any:
        """Return the descriptor of the message at a path of indexes.  Raises IndexError if there is none."""
        if min(indexes) < 0:
            raise IndexError(indexes)
        descriptor = self._top[indexes[0]]
        for index in indexes[1:]:
            descriptor = descriptor.nested_types[index]
        return descriptor

    def named(self, full_name: str) -> Any:
        """Return the descriptor of a message such as "shop.Order".  Raises NoMessageError if there is none."""
        messages = {message.full_name: message for message in _with_nested(self._top)}
        if full_name not in messages:
            raise NoMessageError(f"the schema has no message {full_name!r}{did_you_mean(full_name, messages)}")
        return messages[full_name]

    def parsed(self, indexes: tuple[int, ...], data: bytes) -> Any:
        """Parse a message.

        Raises IndexError if there is no message at the indexes, and CorruptDataError for bytes that do not fit it.
        """
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        kind = self._classes.get(indexes)
        if kind is None:
            kind = self._classes[indexes] = GetMessageClass(self.message(indexes))
        message = kind()
        try:
            message.ParseFromString(data)
        except DecodeError:
            raise CorruptDataError("its bytes do not fit its message") from None
        return message


def _with_nested(messages: list[Any]) -> list[Any]:
    return [nested for message in messages for nested in (message, *_with_nested([*message.nested_types]))]


def _compiled(schema: RegisteredSchema) -> Any:
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from grpc_tools import protoc
    except ImportError:
        raise OptionError(
            "values of Protobuf need packages that are missing: pip install 'tidegate[registry]'"
        ) from None
    with tempfile.TemporaryDirectory(prefix="tidegate-protobuf-") as name, as_file(files("grpc_tools")) as tools:
        folder = Path(name).resolve()
        for path, text in {**schema.references, _ROOT: schema.text}.items():
            place = (folder / path).resolve()
            if not place.is_relative_to(folder):
                raise CorruptDataError(f"its schema refers to {path!r}, which lies outside of it")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        target, common = folder / ".descriptors", folder / ".common"
        common.write_bytes(_of_confluent(schema.references))
        sources = [folder, tools / "_proto", *_of_google()]
        arguments = ["protoc", *(f"-I{source}" for source in sources), f"--descriptor_set_in={common}"]
        arguments += ["--include_imports", f"--descriptor_set_out={target}", str(folder / _ROOT)]
        if protoc.main(arguments) != 0:
            raise CorruptDataError("its schema is no Protobuf schema")
        compiled = FileDescriptorSet.FromString(target.read_bytes())
    pool = DescriptorPool()
    for file in compiled.file:
        pool.Add(file)
    return pool.FindFileByName(_ROOT)


def _of_google() -> list[Path]:
    """Return the folder with google/type, google/api and others, from the package googleapis-common-protos."""
    spec = find_spec("google.type")
    return [] if spec is None else [Path(place).parent.parent for place in spec.submodule_search_locations or ()]


def _of_confluent(besides: Collection[str]) -> bytes:
    """Return the descriptors of confluent/meta.proto and the other files that Confluent's client knows.

    besides: files to leave out, since the schema itself includes them.
    """
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2
    from google.protobuf import descriptor_pb2

    known = descriptor_pb2.FileDescriptorSet()
    for file in (descriptor_pb2, meta_pb2, decimal_pb2):
        if file.DESCRIPTOR.name not in besides:
            file.DESCRIPTOR.CopyToProto(known.file.add())
    content: bytes = known.SerializeToString()
    return content
