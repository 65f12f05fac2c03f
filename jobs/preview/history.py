"""The event times of a split's rows, each standing for a few of them.  Pure logic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_TIMES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The rows of one split.

    start, end: their positions, the end exclusive.
    times_ms: event times in the order of positions, each for an equal part of them.
    disorder_ms: how much older rows are than one before them, at most.
    density: the records of a position: less than 1 after compaction, or with transactions.
    """

    start: int
    end: int
    times_ms: NDArray[np.int64]
    disorder_ms: int = 0
    density: float = 1.0

    @property
    def rows(self) -> int:
        """The number of records."""
        return round((self.end - self.start) * self.density)

    @property
    def rows_of_each(self) -> float:
        """The number of records for which each event time stands."""
        return (self.end - self.start) * self.density / len(self.times_ms)

    @property
    def last_ms(self) -> int:
        """The greatest event time."""
        return int(self.times_ms.max())

    def place(self, position: int) -> int:
        """Return the index of the event time of a position."""
        return (position - self.start) * len(self.times_ms) // (self.end - self.start)

    def position(self, place: int) -> int:
        """Return the first position for which an event time stands."""
        return self.start - (-place * (self.end - self.start) // len(self.times_ms))

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """Return the event times of a range."""
        return self.times_ms[self.place(start) : self.place(end)]


def evenly_spread(start: int, rows: NDArray[np.int64], min_ms: NDArray[np.int64], max_ms: NDArray[np.int64]) -> History:
    """Return the rows of parts that follow each other; those of a part rise evenly from its least to its greatest time.

    start: the position of the first row.
    rows, min_ms, max_ms: those of each part.
    """
    ends = np.cumsum(rows)
    total = int(ends[-1])
    number = min(total, MOST_TIMES)
    at = np.arange(number) * total // number
    part = np.searchsorted(ends, at, side="right")
    share = (at - (ends - rows)[part]) / np.maximum(rows[part] - 1, 1)
    times_ms = min_ms[part] + np.rint(share * (max_ms - min_ms)[part]).astype(np.int64)
    times_ms[times_ms.argmin()], times_ms[times_ms.argmax()] = min_ms.min(), max_ms.max()
    return History(start, start + total, times_ms)
