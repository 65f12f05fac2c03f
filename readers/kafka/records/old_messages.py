"""Reads Kafka's message formats 0 and 1, of producers and brokers before 0.11, which brokers still serve from old logs.

In these formats each message is alone in the log, or several of them are the compressed value of one, the wrapper.
kafka-python finds the fields, slowly.  These steps are ours, since its ``LegacyRecordBatch``, as of 3.0, needs three
more packages to decompress, knows no bound, and trusts any length: one of -12 within a wrapper keeps it for ever, and a
value that is shorter than its length becomes a row.
"""

from __future__ import annotations

import struct
from typing import Any

from tidegate.errors import CorruptDataError
from tidegate.kafka_private import LegacyRecordBatch
from tidegate.readers.decompression import SizeLimit, about, decompress
from tidegate.readers.event_time.units import LARGEST_MS

TOO_LARGE_TIMESTAMP = (
    "a timestamp too large for Spark; its producer may write nanoseconds where Kafka expects milliseconds"
)
"""The fault of a record in any format."""

LEAST_SIZES = {0: 26, 1: 34}
"""The minimum size of a message, by format: without key and value."""

_MAGIC_AT = 16
_LENGTH = struct.Struct(">i")
_CODECS = {1: "gzip", 2: "xerial", 3: "lz4"}


class OldMessage(LegacyRecordBatch):  # type: ignore[misc] # kafka-python has no types
    """One message, or a wrapper with several of them.

    data: all its bytes; their number fits the length in them, and is one of LEAST_SIZES or more.
    bound: of what a wrapper takes decompressed.
    """

    def __init__(self, data: memoryview, bound: SizeLimit) -> None:
        super().__init__(data, data[_MAGIC_AT])
        self._bound = bound

    @property
    def size(self) -> int:
        """The bytes that it takes, once it was read."""
        return len(self._buffer)

    def read(self) -> list[Any]:
        """Return kafka-python's records, with the offsets and timestamps that they have in the log.

        Raises CorruptDataError if the checksum does not fit, a field is wrong or the wrapper cannot be decompressed.
        """
        offset = self.base_offset
        if not self.validate_crc():
            raise CorruptDataError(f"the checksum of the message at offset {offset} does not fit")
        try:
            records = list(self)
        except (IndexError, struct.error):
            raise self._impossible() from None
        size = sum(LEAST_SIZES[self.magic] + len(one.key or b"") + len(one.value or b"") for one in records)
        # A producer of format 1 may leave 0 as the wrapper's offset; otherwise it is that of the last message.
        is_counted = self.magic == 0 or offset > 0
        if not records or size != self.size or (is_counted and records[-1].offset > offset):
            raise self._impossible()
        if any(abs(one.timestamp or 0) > LARGEST_MS for one in records):
            raise CorruptDataError(f"the message at offset {offset} has {TOO_LARGE_TIMESTAMP}")
        return records

    def _decompress(self, key_offset: int) -> memoryview:
        codec = _CODECS.get(self.compression_type)
        _, block = self._read_key_value(key_offset)
        if codec is None or block is None:
            raise self._impossible()
        with about(f"the block of messages up to offset {self.base_offset}"):
            return decompress(codec, memoryview(block), self._bound).data

    def _read_all_headers(self) -> list[tuple[Any, int]]:
        headers, at = [], 0
        while at < len(self._buffer):
            header = self._read_header(at)
            _, length, _, magic, attributes, _ = header
            size = self.LOG_OVERHEAD + length
            if magic != self.magic or size < LEAST_SIZES[magic] or attributes & self.CODEC_MASK:
                raise self._impossible()
            headers.append((header, at))
            at += size
        return headers

    def _read_key_value(self, pos: int) -> list[bytes | None]:
        fields: list[bytes | None] = []
        for _ in range(2):
            (length,) = _LENGTH.unpack_from(self._buffer, pos)
            pos += _LENGTH.size
            end = pos + max(length, 0)
            if length < -1 or end > len(self._buffer):
                raise self._impossible()
            fields.append(None if length < 0 else self._buffer[pos:end].tobytes())
            pos = end
        return fields

    def _impossible(self) -> CorruptDataError:
        return CorruptDataError(f"the message at offset {self.base_offset} has an impossible field")
