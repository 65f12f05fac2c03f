"""Where a value names its schema: Confluent's wire format, in the value itself or in a header of its record.

The value begins with a byte 0 and the id of the schema in four bytes, big-endian.  Or a header holds these, or a byte 1
and the schema's GUID, and the value is the bare payload.  After the id, wherever it is, Protobuf has the place of its
message in the schema: the number of indexes and each index, as zigzag varints.  A single 0 means the first message.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.kafka_private import decode_varint
from tidegate.readers.arrow import compute as pc

VALUE_SCHEMA_ID = "__value_schema_id"
"""The header that holds the id of the value's schema (Confluent: HeaderSchemaIdSerializer)."""

_ID_BYTES, _GUID_BYTES = 5, 17
_MOST_INDEXES = 64  # more levels than any schema has

SchemaId: TypeAlias = int | str
"""An id, or a GUID as text."""


class Framed(NamedTuple):
    """A value in the wire format.

    message: the indexes of the message from the top of a Protobuf schema down; empty for other forms.
    """

    schema: SchemaId
    message: tuple[int, ...]
    payload: bytes


def framed(value: bytes | None, header: bytes | None, form: str) -> Framed | None:
    """Return a value's schema and payload; None: it names no schema.

    header: what the header for the id holds; None: the record has none.
    form: "avro" or "protobuf".
    """
    if value is None:
        return None
    named = value if header is None else header
    schema: SchemaId
    if len(named) >= _ID_BYTES and named[0] == 0:
        schema, at = int.from_bytes(named[1:_ID_BYTES], "big"), _ID_BYTES
    elif header is not None and len(named) >= _GUID_BYTES and named[0] == 1:
        schema, at = str(uuid.UUID(bytes=named[1:_GUID_BYTES])), _GUID_BYTES
    else:
        return None
    message: tuple[int, ...] = ()
    if form == "protobuf":
        try:
            message, at = _message(named, at)
        except (ValueError, IndexError):
            return None
    return Framed(schema, message, value[at:] if header is None else value)


def without_id(value: bytes | None) -> bytes | None:
    """Return the JSON of a value, which may begin with the id of its schema: JSON itself never begins with a byte 0."""
    return value[_ID_BYTES:] if value and value[0] == 0 else value


def last_header(headers: pa.ListArray, name: str) -> pa.BinaryArray:
    """Return the value of each record's last header of a name (Kafka: Headers.lastHeader); null without one."""
    pairs = headers.flatten()
    places = np.flatnonzero(pc.equal(pc.struct_field(pairs, "key"), name))
    last = np.full(len(headers), -1)
    # If a row occurs repeatedly, NumPy keeps its last value.
    last[pc.list_parent_indices(headers).to_numpy()[places]] = places
    return pc.struct_field(pairs, "value").take(pa.array(last, mask=last < 0))


def _message(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the message, and the position after them.  Raises ValueError or IndexError without them."""
    count, at = decode_varint(value, at)
    if not 0 <= count <= _MOST_INDEXES:
        raise ValueError("too many indexes")
    indexes = []
    for _ in range(count):
        index, at = decode_varint(value, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at
