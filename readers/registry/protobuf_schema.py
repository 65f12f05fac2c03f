"""The messages of a Protobuf schema.

The registry has the source of a schema, and Google's compiler turns it into descriptors.
"""

from __future__ import annotations

from typing import Any

from tidegate.errors import CorruptDataError, InstallationError, NoMessageError, did_you_mean
from tidegate.readers.registry.protoc import compiled
from tidegate.readers.registry.schemas import OF_A_BYTE, RegisteredSchema

TIMESTAMP = "google.protobuf.Timestamp"


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
        self._classes: dict[tuple[int, ...], Any] = {}

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

    def parsed(self, indexes: tuple[int, ...], data: bytes) -> Any:
        """Parse a message.  Raises CorruptDataError if there is none at the indexes, or the bytes do not fit it."""
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


def messages_of(schema: RegisteredSchema) -> ProtobufSchema:
    """Return the messages of a schema, which is compiled once; raises what ``ProtobufSchema`` raises."""
    messages = schema.decoder("messages", lambda: ProtobufSchema(schema))
    if messages is None:
        raise CorruptDataError("its schema is no Protobuf schema")
    return messages
