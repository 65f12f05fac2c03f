"""The event times of a split's rows, as stretches in which they are spread evenly.  Pure logic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

__all__ = ["History", "Slice"]


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows at consecutive positions with evenly spread event times, which go up or down.

    start, end: their positions, the end exclusive.
    begin_ms, end_ms: the event time of the first row, and the time that a row at ``end`` would have.
    """

    start: int
    end: int
    begin_ms: int
    end_ms: int

    def time_ms(self, position: int) -> int:
        """Return the event time of the row at a position."""
        return self.begin_ms + (self.end_ms - self.begin_ms) * (position - self.start) // (self.end - self.start)

    def times_ms(self, start: int, end: int) -> tuple[int, int]:
        """Return the least and the greatest event time of the rows in a range of this slice, which is not empty."""
        first_ms, last_ms = self.time_ms(start), self.time_ms(end - 1)
        return min(first_ms, last_ms), max(first_ms, last_ms)

    def rows_before(self, start: int, end: int, time_ms: int) -> int:
        """Return how many rows of a range of this slice are older than a time."""
        least_ms, greatest_ms = self.times_ms(start, end)
        if least_ms >= time_ms:
            return 0
        if greatest_ms < time_ms:
            return end - start
        place = self.first_at(time_ms)
        if self.end_ms > self.begin_ms:
            return min(max(place, start), end) - start
        return end - min(max(place, start), end)

    def first_at(self, time_ms: int) -> int:
        """Return the first position with a row at or after a time; where times go down, the first one before it."""
        span_ms, rows = self.end_ms - self.begin_ms, self.end - self.start
        ahead_ms = time_ms - self.begin_ms
        if span_ms == 0:
            return self.start if ahead_ms <= 0 else self.end
        if span_ms > 0:
            return self.start + max(0, -(-ahead_ms * rows // span_ms))
        return self.start + max(0, (-ahead_ms * rows) // -span_ms + 1)


@dataclass(frozen=True, slots=True)
class History:
    """The rows of one split.

    slices: they follow each other without a hole.
    lags: by how much rows are older than their slice says, in ms, each with the share of the rows.
    density: the records of an offset: less than 1 after compaction, or with transactions.
    """

    slices: tuple[Slice, ...]
    lags: tuple[tuple[int, float], ...] = ((0, 1.0),)
    density: float = 1.0

    @property
    def start(self) -> int:
        """The first position."""
        return self.slices[0].start

    @property
    def end(self) -> int:
        """The position after the last one."""
        return self.slices[-1].end

    @property
    def first_ms(self) -> int:
        """The event time of the first row."""
        return self.slices[0].begin_ms

    @property
    def last_ms(self) -> int:
        """The greatest event time."""
        return self.ceilings()[-1]

    @property
    def rows(self) -> int:
        """The number of records."""
        return round((self.end - self.start) * self.density)

    @property
    def worst_lag_ms(self) -> int:
        """The greatest lag."""
        return max(lag_ms for lag_ms, _ in self.lags)

    def parts(self, start: int, end: int) -> Iterator[tuple[Slice, int, int]]:
        """Yield the slices that overlap a range, each with the part of the range in it."""
        place = bisect_right(self.slices, start, key=lambda part: part.start) - 1
        while start < end:
            part = self.slices[place]
            yield part, start, min(end, part.end)
            start, place = part.end, place + 1

    def time_ms(self, position: int) -> int:
        """Return the event time of the row at a position."""
        return next(self.parts(position, position + 1))[0].time_ms(position)

    def greatest_ms(self, start: int, end: int) -> int:
        """Return the greatest event time in a range that is not empty."""
        return max(part.times_ms(first, last)[1] for part, first, last in self.parts(start, end))

    def least_ms(self, start: int, end: int) -> int:
        """Return the least event time in a range that is not empty."""
        return min(part.times_ms(first, last)[0] for part, first, last in self.parts(start, end)) - self.worst_lag_ms

    def rows_before(self, start: int, end: int, time_ms: int) -> float:
        """Return how many records of a range are older than a time."""
        return self.density * sum(
            share * part.rows_before(first, last, time_ms + lag_ms)
            for part, first, last in self.parts(start, end)
            for lag_ms, share in self.lags
        )

    def ceilings(self) -> Sequence[int]:
        """Return the greatest event time up to the end of each slice."""
        return list(accumulate((part.times_ms(part.start, part.end)[1] for part in self.slices), max))
