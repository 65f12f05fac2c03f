"""Converts Kafka's message formats 0 and 1, of producers and brokers before 0.11, to records of format 2.

In these formats each message is alone in the log, or several of them are the compressed value of one, the wrapper.  The
layout is that of ``LegacyRecord`` in Apache Kafka; wrappers are read like in its ``AbstractLegacyRecordBatch``.

kafka-python's ``LegacyRecordBatch`` does not keep our promises about damaged data, as of 3.0: a length of -12 within a
wrapper makes it loop for ever, and values that are shorter than their lengths become rows.  It also needs three more
packages to decompress.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from tidegate.errors import CorruptDataError
from tidegate.kafka_private import encode_varint
from tidegate.readers.decompression import about, decompress, sound_lz4_header
from tidegate.readers.event_time.units import LARGEST_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.readers.decompression import SizeLimit

__all__ = ["LEAST_SIZES", "TOO_LARGE_TIMESTAMP", "OldMessages", "OldRecords"]

TOO_LARGE_TIMESTAMP = (
    "a timestamp too large for Spark; its producer may write nanoseconds where Kafka expects milliseconds"
)
"""The fault of a record in any format."""

_START = struct.Struct(">qiIbb")  # offset, length of what follows it, CRC, magic, attributes
_LENGTH_END = 12
_CRC_START = 16
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
LEAST_SIZES = {0: _START.size + 8, 1: _START.size + 16}
"""The minimum size of a message, by format: without key and value."""

_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08
_CODECS = {1: "gzip", 2: "xerial", 3: "lz4"}
_NO_TIMESTAMP = -1


class OldRecords(NamedTuple):
    """Some messages as the records of a batch of format 2.

    base_offset, last_offset: the offsets of the first and the last message.
    base_timestamp_ms: their timestamps count from it.
    append_time_ms: the time of all messages if the broker stamped them; None if their producers did.
    has_timestamps: whether the format has timestamps; otherwise each is -1.
    """

    base_offset: int
    last_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None
    has_timestamps: bool
    number: int
    data: bytes


class _Message(NamedTuple):
    """One message, its size in bytes, and whether the broker set its timestamp."""

    size: int
    offset: int
    magic: int
    codec: int
    timestamp_ms: int
    stamped: bool
    key: memoryview | None
    value: memoryview | None


class _Run:
    """Consecutive messages of one kind."""

    def __init__(self, magic: int, append_time_ms: int | None) -> None:
        self.kind = (magic, append_time_ms)
        self.count = 0
        self.data = bytearray()
        self.base_offset = self.last_offset = -1
        self._base_timestamp_ms = _NO_TIMESTAMP

    def add(self, message: _Message) -> None:
        """Append a message; raises CorruptDataError if its offset is not after the others."""
        if message.offset <= self.last_offset or message.offset < 0:
            raise _impossible(message.offset)
        if not self.count:
            self.base_offset, self._base_timestamp_ms = message.offset, message.timestamp_ms
        delta_ms = message.timestamp_ms - self._base_timestamp_ms
        _append_record(self.data, message.offset - self.base_offset, delta_ms, message.key, message.value)
        self.last_offset = message.offset
        self.count += 1

    def records(self, shift: int = 0) -> OldRecords:
        """Return all messages, with ``shift`` added to their offsets."""
        magic, append_time_ms = self.kind
        base, last = self.base_offset + shift, self.last_offset + shift
        data = bytes(self.data)
        return OldRecords(base, last, self._base_timestamp_ms, append_time_ms, magic > 0, self.count, data)


class OldMessages:
    """Gathers consecutive messages, and bounds what a wrapper takes decompressed."""

    def __init__(self, bound: SizeLimit, *, check_crc: bool) -> None:
        self._bound, self._check_crc = bound, check_crc
        self._records: list[OldRecords] = []
        self._run: _Run | None = None
        self.bytes = 0

    def add(self, data: memoryview) -> None:
        """Add one message or wrapper.

        Raises CorruptDataError, and adds nothing, if its checksum does not fit, a length in it is wrong or it
        cannot be decompressed.
        """
        message = self._message(data)
        if message.size != len(data):
            raise _impossible(message.offset)
        if message.codec:
            unwrapped = self._unwrapped(message)
            self._end_run()
            self._records.append(unwrapped)
            self.bytes += len(unwrapped.data)
            return
        kind = (message.magic, message.timestamp_ms if message.stamped else None)
        if self._run is None or self._run.kind != kind:
            self._end_run()
            self._run = _Run(*kind)
        before = len(self._run.data)
        self._run.add(message)
        self.bytes += len(self._run.data) - before

    def take(self) -> list[OldRecords]:
        """Return the records of the messages that were added since the last call, in order."""
        self._end_run()
        records, self._records = self._records, []
        return records

    def _end_run(self) -> None:
        if self._run is not None and self._run.count:
            self._records.append(self._run.records())
        self._run = None

    def _unwrapped(self, wrapper: _Message) -> OldRecords:
        run = _Run(wrapper.magic, wrapper.timestamp_ms if wrapper.stamped else None)
        for message in self._inner(wrapper):
            if message.codec or message.magic != wrapper.magic:
                raise _impossible(wrapper.offset)
            run.add(message)
        # Offsets in a wrapper of format 1 count from its first message, and the wrapper has the offset of its last
        # message.  It is 0 if the producer did not set it.
        relative = wrapper.magic > 0 and wrapper.offset > 0
        if not run.count or (run.last_offset > wrapper.offset and (relative or wrapper.magic == 0)):
            raise _impossible(wrapper.offset)
        return run.records(wrapper.offset - run.last_offset if relative else 0)

    def _inner(self, wrapper: _Message) -> Iterator[_Message]:
        codec = _CODECS.get(wrapper.codec)
        if codec is None or wrapper.value is None:
            raise _impossible(wrapper.offset)
        block = sound_lz4_header(wrapper.value) if codec == "lz4" and wrapper.magic == 0 else wrapper.value
        with about(f"the block of messages up to offset {wrapper.offset}"):
            data = decompress(codec, block, self._bound).data
        at = 0
        while at < len(data):
            message = self._message(data[at:])
            yield message
            at += message.size

    def _message(self, data: memoryview) -> _Message:
        """Return the message at the beginning of some bytes."""
        if len(data) < _START.size:
            raise CorruptDataError("a message of an old format is cut off")
        offset, length, crc, magic, attributes = _START.unpack_from(data)
        size = _LENGTH_END + length
        if not LEAST_SIZES.get(magic, size + 1) <= size <= len(data):
            raise _impossible(offset)
        if self._check_crc and zlib.crc32(data[_CRC_START:size]) != crc:
            raise CorruptDataError(f"the checksum of the message at offset {offset} does not fit")
        at, timestamp_ms = _START.size, _NO_TIMESTAMP
        if magic > 0:
            (timestamp_ms,) = _TIME.unpack_from(data, at)
            at += _TIME.size
        key, at = _text(data[:size], at, offset)
        value, at = _text(data[:size], at, offset)
        if at != size:
            raise _impossible(offset)
        if abs(timestamp_ms) > LARGEST_MS:
            raise CorruptDataError(f"the message at offset {offset} has {TOO_LARGE_TIMESTAMP}")
        stamped = magic > 0 and bool(attributes & _LOG_APPEND_TIME)
        return _Message(size, offset, magic, attributes & _CODEC_MASK, timestamp_ms, stamped, key, value)


def _text(data: memoryview, at: int, offset: int) -> tuple[memoryview | None, int]:
    """Read a length and as many bytes; return the bytes (None: null), and their end."""
    if len(data) - at < _LENGTH.size:
        raise _impossible(offset)
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if not -1 <= length <= len(data) - at:
        raise _impossible(offset)
    return (None if length < 0 else data[at : at + length]), at + max(length, 0)


def _append_record(
    body: bytearray, offset_delta: int, delta_ms: int, key: memoryview | None, value: memoryview | None
) -> None:
    """Append a record of format 2; offset and timestamp are relative to the batch's first record."""
    record = bytearray(1)  # the attributes, all unused
    encode_varint(delta_ms, record.append)
    encode_varint(offset_delta, record.append)
    _append_field(record, key)
    _append_field(record, value)
    encode_varint(0, record.append)  # headers
    encode_varint(len(record), body.append)
    body += record


def _append_field(record: bytearray, data: memoryview | None) -> None:
    if data is None:
        encode_varint(-1, record.append)
    else:
        encode_varint(len(data), record.append)
        record += data


def _impossible(offset: int) -> CorruptDataError:
    return CorruptDataError(f"the message at offset {offset} has an impossible field")
