"""Encodes records as a Kafka record batch of message format 2, uncompressed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c

from tidegate.readers.kafka.records.batches import CRC_START, HEADER, LENGTH_END, MAGIC
from tidegate.readers.kafka.records.record import Headers, append_record

__all__ = ["NewRecord", "encode_batch"]

NO_PRODUCER = (-1, -1, -1)  # id, epoch and sequence
UNKNOWN_EPOCH = -1


class NewRecord(NamedTuple):
    """A record to be written; null stands for a key or a value that is missing."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_batch(records: Sequence[NewRecord]) -> bytes:
    """Return the bytes of a batch of at least one record, as ``DefaultRecordBatch`` in Apache Kafka has them."""
    base_ms = records[0].timestamp_ms
    body = bytearray()
    for number, record in enumerate(records):
        append_record(body, number, record.timestamp_ms - base_ms, record.key, record.value, record.headers)
    last, greatest_ms = len(records) - 1, max(record.timestamp_ms for record in records)
    numbers = (0, last, base_ms, greatest_ms, *NO_PRODUCER, len(records))  # from the attributes on
    length = HEADER.size - LENGTH_END + len(body)
    batch = bytearray(HEADER.pack(0, length, UNKNOWN_EPOCH, MAGIC, 0, *numbers) + body)
    checksum = google_crc32c.value(bytes(batch[CRC_START:]))
    struct.pack_into(">I", batch, CRC_START - 4, checksum)
    return bytes(batch)
