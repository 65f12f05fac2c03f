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
