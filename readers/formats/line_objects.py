"""Reads and surveys objects that consist of lines, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.event_time.range import TimeColumn
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy
from tidegate.readers.formats.byte_surveys import Look, surveys
from tidegate.readers.formats.line_ranges import LineBlock, compression_of, decompressed, range_blocks, stream_blocks
from tidegate.readers.formats.signatures import other_format
from tidegate.readers.objects.values import Bucket, ChunkSurvey, ObjectFormat, S3Object

ROW_BYTES = 256  # the assumed size of a line, if none is read
ROW_BYTES_COMPRESSED = 32
_NUMBER = "^[+-]?[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class LineObject:
    """An object that consists of lines.

    A plain one is cut into chunks at any byte; a line belongs to the chunk that holds its first byte.  A compressed one
    (by its suffix: .gz, .zst, .bz2, .lz4) is one chunk.
    """

    store: Bucket
    obj: S3Object

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self.store.address(self.obj.key)

    @property
    def codec(self) -> str | None:
        """Arrow's name of its codec, see compression_of; None: it is not compressed."""
        return compression_of(self.name)

    def fetch(self, start: int, end: int) -> bytes:
        """Return the bytes of a range.  Raises CorruptDataError if they begin as an object of another format does."""
        data = self.store.fetch(self.obj, start, end)
        if start == 0 and (other := other_format(data)):
            raise CorruptDataError(f"{self.name} holds no lines{other}")
        return data

    def blocks(self, start: int, end: int, block_bytes: int) -> Iterator[LineBlock]:
        """Yield the lines that begin in a range, about ``block_bytes`` at a time; all lines if it is compressed."""
        if self.codec is not None:
            return stream_blocks(self.name, self.pieces(block_bytes))
        return range_blocks(self.name, self.fetch, self.obj.size, start, end, block_bytes=block_bytes)

    def pieces(self, block_bytes: int) -> Iterator[bytes]:
        """Yield its decompressed content, at most ``block_bytes`` at a time."""
        codec = self.codec
        if codec is not None:
            yield from decompressed(self.name, self.fetch, self.obj.size, codec, block_bytes=block_bytes)
            return
        for start in range(0, self.obj.size, block_bytes):
            yield self.fetch(start, min(start + block_bytes, self.obj.size))


@dataclass(frozen=True, slots=True)
class RecordFormat(ObjectFormat):
    """A format whose objects have lines, each a record of several values, see LineObject.

    unit: the unit of event times; None: they are texts in ISO 8601.
    chunk_bytes: the maximum size of a chunk, at least 1.
    bad_records: the policy for records that cannot be read, or whose values do not fit.
    read_times: the event-time column as it is read, if rows are selected by it; None: rows are not selected.  A survey
        then has the times of the rows that ``read`` yields.

    Memory holds some 16 MiB of text, or the longest record if that is longer; it may have at most 256 MiB.
    """

    store: Bucket
    unit: TimeUnit | None = None
    chunk_bytes: int = 64 << 20
    bad_records: BadRecordPolicy = FAIL
    read_times: TimeColumn | None = None


def survey_lines(item: LineObject, look: Look | None, chunk_bytes: int, *, splits: bool = True) -> list[ChunkSurvey]:
    """Survey an object of lines; see ``surveys``.  It is not cut if it is compressed, or if ``splits`` is False."""
    row_bytes = ROW_BYTES_COMPRESSED if item.codec else ROW_BYTES
    return surveys(item.obj.size, chunk_bytes, look, row_bytes=row_bytes, splits=splits and item.codec is None)


def hold_numbers(texts: pa.Array) -> bool:
    """Return whether a text is a number."""
    return bool(pc.any(pc.match_substring_regex(texts, _NUMBER)).as_py())


def line_times(values: pa.Array, unit: TimeUnit | None, column: str, address: str) -> pa.Int64Array:
    """Return the times of texts, or of numbers, in ms since the epoch; null for a value that is none.

    Raises OptionError if a text is a number, and there is no unit.
    """
    if unit is None and hold_numbers(values):
        raise OptionError(
            f"the event-time column {column!r} of {address} holds numbers, so eventTimeUnit must say what they count: "
            "s, ms or us"
        )
    return times_ms(values, unit or "iso8601")
