"""Kafka's record batches: splits fetched bytes into them, finds those that are visible, and decompresses them.

The layout is that of ``DefaultRecordBatch`` in Apache Kafka (message format 2).  A compressed batch has a plain header
and one compressed block with all its records.

Messages of formats 0 and 1, of producers and brokers before 0.11, become such batches here.  Each is alone in the log,
or several of them are the compressed value of one, the wrapper.  kafka-python finds their fields, slowly.  The other
steps are ours, since its ``LegacyRecordBatch``, as of 3.0, needs three more packages to decompress, knows no bound, and
trusts any length: one of -12 within a wrapper keeps it for ever, and a value that is shorter than its length becomes a
row.
"""

from __future__ import annotations

import heapq
import itertools
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from tidegate.alignment.splits import SplitId
from tidegate.errors import CorruptDataError, OutOfMemoryError
from tidegate.kafka_private import DefaultRecordBatchBuilder, LegacyRecordBatch, records_of
from tidegate.readers.decompression import DEFAULT_MOST_BYTES, SizeLimit, about, decompress
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


# base offset, (length,) leader epoch, (magic,) CRC, attributes, last offset delta, base timestamp, max timestamp,
# producer id, (producer epoch, base sequence,) record count
HEADER = struct.Struct(">q4xixIhiqqq6xi")
START = struct.Struct(">qi4xb")  # of every message format: offset, length, magic
LENGTH_END = 12  # the length counts the bytes after itself
CRC_START = 21  # the checksum covers everything from the attributes on
MAGIC = 2
LEAST_SIZE = {**LEAST_SIZES, MAGIC: HEADER.size}
LARGEST_OFFSET = 2**63 - 2  # one more is also a position

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
CODECS: Mapping[int, str] = {1: "gzip", 2: "xerial", 3: "lz4", 4: "zstd"}

CONTROL_TYPE = slice(HEADER.size + 7, HEADER.size + 9)  # the key's second half, after six bytes and its version
ABORT = b"\x00\x00"

MOST_BYTES_OPTION = "kafka.max.decompressed.bytes"
OLD_BYTES = 8 << 20  # the limit of old messages that become batches in one call; a single larger wrapper may exceed it


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch in a fetch response.

    data: all its bytes, header included; a view of the response.
    base_offset, last_offset: the first and last offset it ever had; compaction may have removed these records.
    base_timestamp_ms: the records' timestamps count from it.
    append_time_ms: the time of all its records if the broker stamped them; None if their producer did.
    producer_id: the producer that wrote it, if in a transaction; usually -1.
    attributes: the codec and the flags of the header.
    crc: its checksum, or None, since each message of an old format had its own.
    count: the number of records, from the header.
    most_bytes: the maximum size of its records when decompressed.
    has_timestamps: whether its records have timestamps; otherwise each is -1.
    leader_epoch: the epoch of the leader that appended it; None in message formats 0 and 1.
    """

    data: npt.NDArray[np.uint8]
    base_offset: int
    last_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None
    producer_id: int
    attributes: int
    crc: int | None
    count: int
    most_bytes: int = DEFAULT_MOST_BYTES
    has_timestamps: bool = True
    leader_epoch: int | None = None

    def verify(self) -> None:
        """Raise CorruptDataError if the checksum does not fit."""
        # A NumPy slice is accepted without a copy; a memoryview would be refused.
        if self.crc is not None and google_crc32c.value(self.data[CRC_START:]) != self.crc:
            raise CorruptDataError(f"the checksum of the record batch at offset {self.base_offset} does not fit")

    def records(self) -> npt.NDArray[np.uint8]:
        """Return the bytes of its consecutive records, decompressed if necessary.

        Raises CorruptDataError if the checksum does not fit, or the block cannot be decompressed or becomes too large;
        OutOfMemoryError.
        """
        self.verify()
        codec = self.attributes & CODEC_MASK
        block = self.data[HEADER.size :]
        if codec == 0:
            return block
        if codec not in CODECS:
            raise CorruptDataError(f"the record batch at offset {self.base_offset} has the unknown codec {codec}")
        try:  # a context manager would take longer than a small batch
            return decompress(CODECS[codec], block.data, SizeLimit(self.most_bytes, MOST_BYTES_OPTION))
        except (CorruptDataError, OutOfMemoryError) as problem:
            raise type(problem)(f"the record batch at offset {self.base_offset} {problem}") from None


def split_batches(fetched: memoryview, *, most_bytes: int = DEFAULT_MOST_BYTES) -> list[RecordBatch]:
    """Return whole batches in the bytes of a fetch, in order; brokers cut the last one anywhere.

    Batches of message formats 0 and 1 are checked and decompressed here.  Of these at most OLD_BYTES are returned, and
    none after a damaged one: fetch again from the end of the last batch for the others.

    Raises CorruptDataError if the bytes are not record batches, or if the first one has an old format and is damaged.
    """
    batches: list[RecordBatch] = []
    old: list[Any] = []
    old_bytes = 0
    data = _readonly(fetched)
    for start, end, magic in _frames(fetched):
        if magic == MAGIC:
            batches += _upgraded(old)
            old = []
            header = HEADER.unpack_from(fetched, start)
            batches.append(_batch(data[start:end], header, most_bytes))
            continue
        message = OldMessage(fetched[start:end], SizeLimit(most_bytes, MOST_BYTES_OPTION))
        try:
            old += message.read()
        except CorruptDataError:
            if batches or old:
                break
            raise
        old_bytes += message.size
        if old_bytes > OLD_BYTES:
            break
    return _in_order([*batches, *_upgraded(old)])


def holds_a_batch(fetched: memoryview) -> bool:
    """Return whether the bytes hold a whole batch, or a whole message of an old format."""
    return len(fetched) >= START.size and LENGTH_END + START.unpack_from(fetched)[1] <= len(fetched)


def _in_order(batches: list[RecordBatch]) -> list[RecordBatch]:
    """Return the batches; raises CorruptDataError for an offset that is not after those before it."""
    position = 0
    for batch in batches:
        if not position <= batch.base_offset <= batch.last_offset <= LARGEST_OFFSET:
            raise _impossible(batch.base_offset)
        position = batch.last_offset + 1
    return batches


def _frames(fetched: memoryview) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and format of each whole batch or message."""
    end = 0
    while len(fetched) - (start := end) >= START.size:
        offset, length, magic = START.unpack_from(fetched, start)
        if magic not in LEAST_SIZE:
            raise CorruptDataError(f"the records at offset {offset} have the unknown message format {magic}")
        end = start + LENGTH_END + length
        if end - start < LEAST_SIZE[magic]:
            raise _impossible(offset)
        if end > len(fetched):
            return
        yield start, end, magic


def _batch(data: npt.NDArray[np.uint8], header: Sequence[int], most_bytes: int) -> RecordBatch:
    base_offset, leader_epoch, crc, attributes, last_delta, base_ms, max_ms, producer_id, count = header
    return RecordBatch(
        data,
        base_offset,
        base_offset + last_delta,
        base_ms,
        max_ms if attributes & LOG_APPEND_TIME else None,
        producer_id,
        attributes,
        crc,
        count,
        most_bytes,
        leader_epoch=leader_epoch,
    )


def _upgraded(old: Iterable[Any]) -> Iterator[RecordBatch]:
    """Yield consecutive messages of one format, stamped by the same, as a batch of format 2."""
    for (magic, append_time_ms), run in itertools.groupby(old, _kind_of):
        builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, sys.maxsize)
        messages = list(run)
        first = messages[0]
        for message in messages:
            timestamp_ms = -1 if message.timestamp is None else message.timestamp
            builder.append(message.offset - first.offset, timestamp_ms, message.key, message.value, [])
        data = records_of(builder)
        yield RecordBatch(
            np.frombuffer(data, np.uint8),
            first.offset,
            messages[-1].offset,
            -1 if first.timestamp is None else first.timestamp,
            append_time_ms,
            producer_id=-1,
            attributes=0,
            crc=None,
            count=len(messages),
            most_bytes=len(data),
            has_timestamps=magic > 0,
        )


def _kind_of(message: Any) -> tuple[int, int | None]:
    return message.magic, message.timestamp if message.timestamp_type else None


def _impossible(base_offset: int) -> CorruptDataError:
    return CorruptDataError(f"the record batch at offset {base_offset} has an impossible header")


def visible_batches(batches: Iterable[RecordBatch], aborted: Sequence[tuple[int, int]]) -> Iterator[RecordBatch]:
    """Yield the batches that hold data, without those of aborted transactions.

    ``aborted`` has producer id and first offset of each aborted transaction that may reach into these batches.  From
    that offset on, the producer's transactional batches are aborted, until its abort marker (as in CompletedFetch of
    Kafka's Java consumer).

    Raises CorruptDataError for a batch with a wrong checksum that would be left out.
    """
    upcoming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
    heapq.heapify(upcoming)
    aborting: set[int] = set()
    for batch in batches:
        while upcoming and upcoming[0][0] <= batch.last_offset:
            aborting.add(heapq.heappop(upcoming)[1])
        if batch.attributes & CONTROL:
            batch.verify()
            if batch.data[CONTROL_TYPE].tobytes() == ABORT:
                aborting.discard(batch.producer_id)
        elif batch.attributes & TRANSACTIONAL and batch.producer_id in aborting:
            batch.verify()
        else:
            yield batch


@contextmanager
def corruption_named(split_id: SplitId) -> Iterator[None]:
    """Name the split in a CorruptDataError or an OutOfMemoryError that passes here."""
    try:
        yield
    except (CorruptDataError, OutOfMemoryError) as error:
        if str(error).startswith(f"{split_id}: "):  # an error of a record: RecordTimes names the split itself
            raise
        raise type(error)(f"{split_id}: {error}") from error


def _readonly(data: memoryview) -> npt.NDArray[np.uint8]:
    # All data is read-only, because Numba would compile again for writable arrays.
    return np.frombuffer(data.toreadonly(), np.uint8)
