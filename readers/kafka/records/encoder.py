"""Encodes records as a Kafka record batch of message format 2, uncompressed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import google_crc32c

from tidegate.readers.kafka.records.batches import CRC_START, HEADER, LENGTH_END, MAGIC

__all__ = ["Headers", "NewRecord", "encode_batch"]

NO_PRODUCER = (-1, -1, -1)  # id, epoch and sequence
UNKNOWN_EPOCH = -1

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class NewRecord(NamedTuple):
    """A record to be written; null stands for a key or a value that is missing."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_batch(records: Sequence[NewRecord]) -> bytes:
    """Return the bytes of a batch of at least one record, as ``DefaultRecordBatch`` in Apache Kafka has them."""
    base_ms = records[0].timestamp_ms
    body = b"".join(_record(number, base_ms, record) for number, record in enumerate(records))
    last, greatest_ms = len(records) - 1, max(record.timestamp_ms for record in records)
    numbers = (0, last, base_ms, greatest_ms, *NO_PRODUCER, len(records))  # from the attributes on
    length = HEADER.size - LENGTH_END + len(body)
    batch = bytearray(HEADER.pack(0, length, UNKNOWN_EPOCH, MAGIC, 0, *numbers) + body)
    checksum = google_crc32c.value(bytes(batch[CRC_START:]))
    struct.pack_into(">I", batch, CRC_START - 4, checksum)
    return bytes(batch)


def _record(number: int, base_ms: int, record: NewRecord) -> bytes:
    parts = [b"\x00", _varint(record.timestamp_ms - base_ms), _varint(number), _text(record.key), _text(record.value)]
    parts.append(_varint(len(record.headers)))
    for name, value in record.headers:
        parts += [_text(name.encode(errors="surrogateescape")), _text(value)]
    body = b"".join(parts)
    return _varint(len(body)) + body


def _text(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Return a zigzag number of variable length."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
