"""Reads one field of Protobuf values of one schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.errors import CorruptDataError
from tidegate.readers.registry.avro_field import ReadField
from tidegate.readers.registry.protobuf_schema import TIMESTAMP, ProtobufSchema
from tidegate.readers.registry.schemas import RegisteredSchema
from tidegate.readers.registry.wire import Instant, message_indexes

__all__ = ["protobuf_field"]


def protobuf_field(schema: RegisteredSchema, tokens: Sequence[str]) -> ReadField | None:
    """Return a function that reads a field of values; None: the schema is not a Protobuf schema.

    tokens: the names of the fields, from the top down, with the indexes of repeated fields.

    A field that is not set is None.  If a number has no presence, its zero counts as not set, because Protobuf does not
    write it.  A google.protobuf.Timestamp becomes an Instant.
    """
    try:
        messages = ProtobufSchema(schema)
    except CorruptDataError:
        return None

    def read(value: bytes) -> object:
        try:
            indexes, begin = message_indexes(value)
            return _field_of(messages.parsed(indexes, value[begin:]), tokens)
        except (ValueError, IndexError, CorruptDataError):
            return None

    return lambda whole: [read(value) for value in whole]


def _field_of(node: Any, tokens: Sequence[str]) -> object:
    if not tokens:
        return _plain(node)
    token, *rest = tokens
    field = node.DESCRIPTOR.fields_by_name.get(token) if hasattr(node, "DESCRIPTOR") else None
    if field is None or (field.has_presence and not node.HasField(token)):
        return None
    value = getattr(node, token)
    if not field.is_repeated:
        return _field_of(value, rest) if field.has_presence or value else None
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map or not rest or not rest[0].isdecimal() or int(rest[0]) >= len(value):
        return None
    return _field_of(value[int(rest[0])], rest[1:])


def _plain(node: Any) -> object:
    if not hasattr(node, "DESCRIPTOR"):
        return node
    if node.DESCRIPTOR.full_name != TIMESTAMP:
        return None
    ms = node.seconds * 1000 + node.nanos // 1_000_000
    return Instant(ms) if abs(ms) < 1 << 63 else None
