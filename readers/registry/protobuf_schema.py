"""The messages of a Protobuf schema.

The registry has the source of a schema, and Google's compiler turns it into descriptors.
"""

from __future__ import annotations

from typing import Any

from tidegate.errors import CorruptDataError, NoMessageError, OptionError, did_you_mean
from tidegate.readers.registry.protoc import compiled
from tidegate.readers.registry.schemas import RegisteredSchema

TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufSchema:
    """The messages of one schema.

    descriptors: the bytes of its descriptors.

    Raises CorruptDataError if the compiler refuses the schema, and OptionError if the packages of tidegate[registry]
    are missing.
    """

    def __init__(self, schema: RegisteredSchema) -> None:
        if schema.kind != "PROTOBUF":
            raise CorruptDataError(f"its schema is of the type {schema.kind}, not PROTOBUF")
        self._file, self.descriptors = _compiled(schema)
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


def _compiled(schema: RegisteredSchema) -> tuple[Any, int]:
    try:
        return compiled(schema.text, schema.references)
    except ImportError:
        raise OptionError(
            "values of Protobuf need packages that are missing: pip install 'tidegate[registry]'"
        ) from None
