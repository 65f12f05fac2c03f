"""Reads and surveys objects that consist of lines, plain or compressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.event_time import seen as seen_times
from tidegate.readers.event_time.seen import TimeTally, look_at_ends
from tidegate.readers.formats.line_ranges import LineBlock, compression_of, decompressed, range_blocks, stream_blocks
from tidegate.readers.formats.signatures import other_format
from tidegate.readers.objects.values import ChunkSurvey, S3Object
from tidegate.readers.s3.store import ObjectStore

WHOLE_BYTES = 256 << 10  # objects up to this size are surveyed as a whole
ROW_BYTES = 256  # the assumed size of a line, if none is read
ROW_BYTES_COMPRESSED = 32


@dataclass(frozen=True, slots=True)
class LineObject:
    """An object that consists of lines, and its bytes if they were fetched already."""

    store: ObjectStore
    obj: S3Object
    whole: bytes | None = None

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self.store.address(self.obj.key)

    @property
    def codec(self) -> str | None:
        """Arrow's name of its codec, see compression_of; None: it is not compressed."""
        return compression_of(self.name)

    def fetched(self) -> LineObject:
        """Return this object with all its bytes, which one request fetches."""
        return replace(self, whole=self.store.fetch(self.obj, 0, self.obj.size))

    def fetch(self, start: int, end: int) -> bytes:
        """Return the bytes of a range.  Raises CorruptDataError if they begin as an object of another format does."""
        data = self.store.fetch(self.obj, start, end) if self.whole is None else self.whole[start:end]
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


class SeenLines(NamedTuple):
    """Lines that a survey has read.

    times: the event times of their rows, in ms since the epoch; null for a row without one.
    malformed: the number of malformed lines that become rows; ``times`` has no value for them.
    """

    bytes: int
    times: pa.Int64Array
    malformed: int = 0


Look: TypeAlias = Callable[[LineObject, int, int], Iterator[SeenLines]]
"""Reads the event times of the lines that begin in a range of an object, some lines at a time."""


class _Seen(TimeTally):
    """The lines of an object that its survey has read so far."""

    def __init__(self, item: LineObject, look: Look) -> None:
        super().__init__()
        self._item, self._look = item, look
        self.bytes = 0

    def saw(self, start: int, end: int) -> bool:
        """Read the lines of a range, and return whether rows begin in it."""
        before = self.rows
        for lines in self._look(self._item, start, end):
            self.add_times(lines.times)
            self.rows += lines.malformed
            self.malformed_rows += lines.malformed
            self.bytes += lines.bytes
        return self.rows > before


def survey_lines(item: LineObject, look: Look | None, chunk_bytes: int, *, splits: bool = True) -> list[ChunkSurvey]:
    """Cut an object into even chunks of at most ``chunk_bytes``, or into one chunk.

    An object up to 256 KiB is read whole, by one request, and so is an object that is not cut.  Rows and times are
    exact then.  In other chunks, only lines that begin in the first or in the last 64 KiB are read.  If they are
    longer, these are the first and the last line.  The times are right unless a line between is earlier or later than
    all of these.  So they are right if lines are in order of time.  Rows are estimated by the mean length of the lines.

    look: reads the event times of lines.  None: times are not needed.  Nothing is requested then, and rows are
        estimated at 256 bytes each, or at 32 compressed bytes.
    splits: an object that is not compressed may be cut.
    """
    size = item.obj.size
    if size == 0:
        return []
    splits = splits and item.codec is None
    count = -(-size // chunk_bytes) if splits else 1
    chunks = [*pairwise(size * number // count for number in range(count + 1))]
    if look is None:
        row_bytes = ROW_BYTES_COMPRESSED if item.codec else ROW_BYTES
        return [ChunkSurvey(start, end, max((end - start) // row_bytes, 1), None) for start, end in chunks]
    if item.codec is None and size <= WHOLE_BYTES:
        item = item.fetched()
        splits = False
    return [_surveyed(_Seen(item, look), start, end, probes=splits) for start, end in chunks]


def _surveyed(seen: _Seen, start: int, end: int, *, probes: bool) -> ChunkSurvey:
    if not probes or end - start <= 2 * seen_times.PROBE_BYTES:
        seen.saw(start, end)
        return seen.survey(start, end)
    if look_at_ends(start, end, seen.saw):
        return seen.survey(start, end)
    return seen.survey(start, end, max((end - start) * seen.rows // max(seen.bytes, 1), 1))
