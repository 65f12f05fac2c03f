"""The rows of a bucket's state in small pages: a batch reads and writes the pages that it touches.

A page is an Arrow batch, and a hash of the key says which.  Pages grow and shrink by linear hashing (Litwin 1980), one
page after the other, without a directory.  Small pages are best for batches that touch few of them.  Where batches
touch most of them, as in a back-fill, fewer and larger ones are: each takes a state call or two.

What is due is found without reading pages: a block holds the first timers of its pages, and the bucket those of its
blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.windows.spark.keys import hashes
from tidegate.windows.window import MAX_TIME

EVENT, PROCESSING = "__event", "__processing"
"""The columns with the first timers of a row, in ms."""
NEVER = MAX_TIME
"""The time of a timer that there is not."""
_Ints: TypeAlias = npt.NDArray[np.int64]
_MEAN, _LARGE_MEAN = 2_000, 16_000  # bytes of a page on average: those not split yet have twice as much as others
_STREAK = 3  # batches that touch most pages, before pages are large: one may only fire what is due
_LARGEST = 4_000_000  # bytes of a bucket with large pages: the first batch that touches few makes all of them small
_LARGEST_ROW = 4_000  # bytes of a row that count; a stored size was counted so
_BLOCK = 256  # pages of a block


class PageStore(Protocol):
    """Keeps pages and blocks."""

    def read(self, kind: bytes, numbers: Collection[int]) -> dict[int, bytes]:
        """Return pages or blocks by number, without those that are empty."""

    def write(self, kind: bytes, number: int, value: bytes | None) -> None:
        """Store a page or block that was read before, or is new; None: it is empty."""


class Kept(NamedTuple):
    """What a bucket keeps of its pages.

    pages, size: the number of pages, and the bytes of their rows, of which a large one counts only in part.
    first_timers: for each block, the first timers of its pages: in event time and in processing time, in ms.
    streak: the number of batches up to the last one that touched at least half of the pages.
    """

    pages: int = 1
    size: int = 0
    first_timers: Sequence[Sequence[int]] = ()
    streak: int = 0


class Pages:
    """The rows of one bucket during a batch: ``touched`` reads some, and ``replace`` stores them anew.

    schema: the columns of rows.  A column of timers may be missing.

    Attributes:
    count: the number of pages.  ``Kept`` describes the others.
    """

    def __init__(
        self,
        store: PageStore,
        schema: pa.Schema,
        keys: Sequence[str],
        kept: Kept = Kept(),  # noqa: B008 - it cannot change
    ) -> None:
        self._store, self._schema, self._keys = store, schema, list(keys)
        self.count, self.size, self.streak = kept.pages, kept.size, kept.streak
        self.first_timers = [list(times) for times in kept.first_timers]
        self._read: dict[int, bytes | None] = {}  # pages as they are stored
        self._held = 0  # the bytes of their rows
        self._blocks: dict[int, _Ints] = {}

    def touched(self, keys: pa.Table | None, event_ms: int, processing_ms: int) -> pa.Table:
        """Return the rows of pages that may have a row of these keys, or a timer at or before one of these times."""
        numbers = {*self._due(event_ms, processing_ms)}
        if keys is not None and keys.num_rows:
            numbers.update(np.unique(self._numbers(keys)).tolist())
        return self._rows_of(numbers)

    def replace(self, rows: pa.Table) -> None:
        """Store these rows in place of those that were read.  The pages become more or fewer, by their bytes."""
        held = _bytes(rows)
        self.size += held - self._held
        self._held = held
        self.streak = self.streak + 1 if len(self._read) * 2 >= self.count else 0
        before, self.count = self.count, self._wanted()
        moved = self._rows_of(_moved(before, self.count) - self._read.keys() if self.size else ())
        if moved.num_rows:
            rows = pa.concat_tables([rows, moved])
        numbers = self._numbers(rows)
        order = np.argsort(numbers, kind="stable")
        ordered, numbers = rows.take(pa.array(order)).combine_chunks(), numbers[order]
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        firsts = self._first_timers(ordered, begins)
        ends = [*begins[1:].tolist(), len(numbers)][: len(begins)]
        found = dict(zip(numbers[begins].tolist(), zip(begins.tolist(), ends, firsts, strict=True), strict=True))
        self._read_blocks({number // _BLOCK for number in self._read.keys() | found.keys()})
        for number in sorted(self._read.keys() | found.keys()):
            if number in found:
                begin, end, first = found[number]
                self._write(number, _to_bytes(ordered.slice(begin, end - begin)), first)
            else:
                self._write(number, None, [NEVER, NEVER])
        self._write_blocks()

    @property
    def kept(self) -> Kept:
        """What the bucket keeps, after ``replace``."""
        return Kept(self.count, self.size, self.first_timers, self.streak)

    def next_timers(self) -> tuple[int | None, int | None]:
        """Return the first timers of all rows, after ``replace``: in event time and in processing time; None: none."""
        event, processing = (min(times) for times in zip(*self.first_timers, [NEVER, NEVER], strict=True))
        return None if event == NEVER else event, None if processing == NEVER else processing

    def _wanted(self) -> int:
        """Return the number of pages for their bytes.  It does not follow every small change."""
        mean = _LARGE_MEAN if self.streak >= _STREAK and self.size <= _LARGEST else _MEAN
        least, most = max(1, -(-self.size // mean)), max(1, self.size * 4 // mean)
        return max(self.count, least) if self.count <= most else max(1, self.size * 2 // mean)

    def _rows_of(self, numbers: Collection[int]) -> pa.Table:
        """Return the rows of pages that were not read before."""
        if not numbers:
            return self._schema.empty_table()
        blobs = self._store.read(b"page", numbers) if self.size else {}
        self._read.update(dict.fromkeys(numbers) | blobs)
        batches = [pa.ipc.read_record_batch(blobs[number], self._schema) for number in sorted(blobs)]
        rows = pa.Table.from_batches(batches, self._schema).combine_chunks()
        self._held += _bytes(rows)
        return rows

    def _write(self, number: int, blob: bytes | None, firsts: Sequence[int]) -> None:
        if blob != self._read.get(number):
            self._store.write(b"page", number, blob)
            self._read[number] = blob
        self._blocks[number // _BLOCK][number % _BLOCK] = firsts

    def _due(self, event_ms: int, processing_ms: int) -> Iterator[int]:
        """Yield the pages with a timer at or before one of these times."""
        limits = np.array([event_ms, processing_ms])
        blocks = [
            number
            for number, (event, processing) in enumerate(self.first_timers)
            if event <= event_ms or processing <= processing_ms
        ]
        self._read_blocks(blocks)
        for number in blocks:
            is_due = (self._blocks[number] <= limits) & (self._blocks[number] != NEVER)
            yield from (np.flatnonzero(is_due.any(axis=1)) + number * _BLOCK).tolist()

    def _numbers(self, rows: pa.Table) -> _Ints:
        """Return the page of each row."""
        bits = (self.count - 1).bit_length()
        low = hashes(rows.select(self._keys)).view(np.int64) & ((1 << bits) - 1)
        return np.where(low < self.count, low, low & ((1 << max(bits - 1, 0)) - 1))

    def _first_timers(self, rows: pa.Table, begins: npt.NDArray[np.intp]) -> list[list[int]]:
        times = np.full((len(begins), 2), NEVER)
        for place, name in enumerate((EVENT, PROCESSING)):
            if name in rows.column_names and len(begins):
                times[:, place] = np.minimum.reduceat(rows.column(name).to_numpy(), begins)
        return times.tolist()

    def _read_blocks(self, numbers: Collection[int]) -> None:
        unread = {number for number in numbers if number not in self._blocks}
        blobs = self._store.read(b"due", [number for number in unread if self._has_block(number)])
        for number in unread:
            block = np.full((_BLOCK, 2), NEVER)
            if number in blobs:
                block[:] = np.frombuffer(blobs[number], "<i8").reshape(-1, 2)
            self._blocks[number] = block

    def _has_block(self, number: int) -> bool:
        """Return whether a block is stored: a block without a timer is not."""
        return number < len(self.first_timers) and min(self.first_timers[number]) < NEVER

    def _write_blocks(self) -> None:
        for number, block in self._blocks.items():
            blob, firsts = block.astype("<i8").tobytes(), block.min(axis=0).tolist()
            is_empty = bool((block == NEVER).all())
            while len(self.first_timers) <= number:
                self.first_timers.append([NEVER, NEVER])
            before = self._store.read(b"due", [number]).get(number) if self._has_block(number) else None
            if before != (None if is_empty else blob):
                self._store.write(b"due", number, None if is_empty else blob)
            self.first_timers[number] = firsts
        del self.first_timers[-(-self.count // _BLOCK) :]


def _moved(before: int, after: int) -> set[int]:
    """Return the pages with rows that move when the number of pages changes."""
    few = min(before, after)
    return {_origin(number, few) for number in range(few, max(before, after))} | {*range(after, before)}


def _origin(number: int, count: int) -> int:
    """Return the page from which one was split, of those that there were at first."""
    while number >= count:
        number -= 1 << number.bit_length() - 1
    return number


def _bytes(rows: pa.Table) -> int:
    """Return the bytes of rows, for the number of pages: more pages would not help one large row."""
    total = np.zeros(rows.num_rows, np.int64)
    fixed = 0
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            sizes = pc.binary_length(column).fill_null(0).to_numpy()
            total += sizes
        else:
            fixed += max(column.type.bit_width // 8, 1) if not pa.types.is_null(column.type) else 0
    return int(np.minimum(total + fixed, _LARGEST_ROW).sum())


def _to_bytes(rows: pa.Table) -> bytes:
    (batch,) = rows.to_batches()
    return bytes(batch.serialize())
