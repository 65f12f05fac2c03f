"""Kafka's record batches (message format 2): where they begin, which are visible, what is in them.

The layout is that of ``DefaultRecordBatch`` in Apache Kafka.  A compressed batch has a plain header
and one compressed block that holds all its records.
"""

from __future__ import annotations

import heapq
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cramjam
import google_crc32c
import numpy as np

from tidegate.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from tidegate.alignment.splits import SplitId

__all__ = ["RecordBatch", "corruption_named", "split_batches", "visible_batches"]

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp,
# max timestamp, producer id, producer epoch, base sequence, record count
HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH_END = 12  # the length counts the bytes after itself
MAGIC_AT = 16
CRC_START = 21  # the checksum covers everything from the attributes on
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

CONTROL_TYPE = slice(HEADER.size + 7, HEADER.size + 9)  # the key's second half, after six bytes and its version
ABORT = b"\x00\x00"
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE = 16


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One batch as it lies in a fetch response.

    data: all its bytes, header included; a view, valid as long as the response's buffer is.
    base_offset, last_offset: the first and last offset it ever had; compaction may have removed
        the records that stood there.
    base_timestamp_ms: what the records' timestamps count from.
    append_time_ms: the time of all its records if the broker stamped them, None if their producer did.
    producer_id: who wrote it, if in a transaction; -1 for most.
    attributes: the codec and the flags of the header.
    crc: the checksum in the header.
    """

    data: npt.NDArray[np.uint8]
    base_offset: int
    last_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None
    producer_id: int
    attributes: int
    crc: int

    def records(self, *, check_crc: bool) -> npt.NDArray[np.uint8]:
        """Return the bytes of its records one after the other, decompressed if need be.

        Raises CorruptDataError if the checksum does not fit or the block cannot be decompressed.
        """
        # A NumPy slice goes through without a copy; a memoryview would be refused.
        if check_crc and google_crc32c.value(self.data[CRC_START:]) != self.crc:
            raise CorruptDataError(f"the checksum of the record batch at offset {self.base_offset} does not fit")
        codec = self.attributes & CODEC_MASK
        if codec == 0:
            return self.data[HEADER.size :]
        try:
            return _readonly(DECOMPRESS[codec](self.data[HEADER.size :].data))
        except (cramjam.DecompressionError, struct.error, KeyError) as error:
            raise CorruptDataError(
                f"the record batch at offset {self.base_offset} cannot be decompressed (codec {codec}): {error}"
            ) from error


def split_batches(fetched: memoryview) -> list[RecordBatch]:
    """Return the whole batches in the bytes of a fetch; brokers cut the last one anywhere.

    Raises CorruptDataError if the bytes are not record batches of message format 2.  Older formats
    were written only by producers and brokers older than Kafka 0.11 (2017).
    """
    data = _readonly(fetched)
    batches = []
    at = 0
    while len(fetched) - at >= HEADER.size:
        (
            base_offset,
            length,
            _,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            _,
            _,
            _,
        ) = HEADER.unpack_from(fetched, at)
        if magic != MAGIC:
            raise CorruptDataError(f"the records at offset {base_offset} have message format {magic}; only 2 is read")
        end = at + LENGTH_END + length
        if length < HEADER.size - LENGTH_END or last_offset_delta < 0:
            raise CorruptDataError(f"the record batch at offset {base_offset} has an impossible header")
        if end > len(fetched):
            break
        batches.append(
            RecordBatch(
                data[at:end],
                base_offset,
                base_offset + last_offset_delta,
                base_timestamp,
                max_timestamp if attributes & LOG_APPEND_TIME else None,
                producer_id,
                attributes,
                crc,
            )
        )
        at = end
    return batches


def visible_batches(batches: Iterable[RecordBatch], aborted: Sequence[tuple[int, int]]) -> Iterator[RecordBatch]:
    """Yield the batches that hold data, without those of aborted transactions.

    ``aborted`` are producer id and first offset of each aborted transaction that may reach into
    these batches.  From that offset on, the producer's transactional batches are aborted, until its
    abort marker (as in CompletedFetch of Kafka's Java consumer).
    """
    upcoming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
    heapq.heapify(upcoming)
    aborting: set[int] = set()
    for batch in batches:
        while upcoming and upcoming[0][0] <= batch.last_offset:
            aborting.add(heapq.heappop(upcoming)[1])
        if batch.attributes & CONTROL:
            if batch.data[CONTROL_TYPE].tobytes() == ABORT:
                aborting.discard(batch.producer_id)
        elif not (batch.attributes & TRANSACTIONAL and batch.producer_id in aborting):
            yield batch


@contextmanager
def corruption_named(split_id: SplitId) -> Iterator[None]:
    """Let a CorruptDataError that passes here say which split it is about."""
    try:
        yield
    except CorruptDataError as error:
        if str(error).startswith(f"{split_id}: "):  # of a record, whose event time is judged inside
            raise
        raise CorruptDataError(f"{split_id}: {error}") from error


def _readonly(data: bytearray | memoryview | cramjam.Buffer) -> npt.NDArray[np.uint8]:
    # Numba compiles anew for writable arrays: all data is of one kind.
    return np.frombuffer(memoryview(data).toreadonly(), np.uint8)


def _unsnappy(block: memoryview) -> bytearray | cramjam.Buffer:
    """Decompress one raw block, or the blocks with lengths that Java's xerial library writes."""
    if block[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return cramjam.snappy.decompress_raw(block)
    parts = []
    at = XERIAL_HEADER_SIZE
    while at < len(block):
        (length,) = struct.unpack_from(">I", block, at)
        at += 4
        parts.append(cramjam.snappy.decompress_raw(block[at : at + length]))
        at += length
    return bytearray().join(parts)


DECOMPRESS: Mapping[int, Callable[[memoryview], bytearray | cramjam.Buffer]] = {
    1: cramjam.gzip.decompress,
    2: _unsnappy,
    3: cramjam.lz4.decompress,
    4: cramjam.zstd.decompress,
}
