"""Confluent's wire format: a byte 0, the id of the schema in four bytes, big-endian, and the payload.

The payload of Protobuf begins with the place of its message in the schema.  That is the number of indexes and each
index, as zigzag varints.  A single 0 means the first message.
"""

from __future__ import annotations

import struct

from tidegate.kafka_private import decode_varint

HEADER_BYTES = 5
_MOST_INDEXES = 64  # more levels than any schema has


def schema_id_of(value: bytes | None) -> int | None:
    """Return the id of the schema of a value; None: the value is not in Confluent's wire format."""
    if value is None or len(value) < HEADER_BYTES or value[0] != 0:
        return None
    schema_id: int = struct.unpack_from(">I", value, 1)[0]
    return schema_id


def message_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the message from the top of the schema down, and the position at which the message begins.

    Raises ValueError or IndexError if there are no indexes.
    """
    count, at = decode_varint(value, HEADER_BYTES)
    if not 0 <= count <= _MOST_INDEXES:
        raise ValueError("too many indexes")
    indexes = []
    for _ in range(count):
        index, at = decode_varint(value, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at
