"""What a preview has seen of a source: its rows, and the batches that Spark and tidegate make of them.

Of the rows of a split some event times are kept, each standing for a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import Positions, SplitId

MOST_TIMES = 20_000
MUCH = 20  # the part of all event time that is remarkable
TIMELESS = "no record with a timestamp"
"""The note of a split without a time: its records have none, or belong to aborted transactions."""
_FEW = 0.001  # the share of the rows that does not widen the picture


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The rows of one split.

    start, end: their positions, the end exclusive.
    times_ms: event times in the order of positions, each for an equal part of them.
    disorder_ms: how much older rows are than one before them, at most.
    densities: the records of a position, for each event time: less than 1 after compaction, or with transactions.
    sampled_least_ms: the least time that a row may have, for each event time; None: the disorder behind the newest one.
    """

    start: int
    end: int
    times_ms: NDArray[np.int64]
    disorder_ms: int = 0
    densities: NDArray[np.float64] | float = 1.0
    sampled_least_ms: NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        """The number of records."""
        return round((self.end - self.start) * self.density)

    @property
    def density(self) -> float:
        """The records of a position, on average."""
        return float(np.mean(self.densities))

    @property
    def rows_of_each(self) -> NDArray[np.float64]:
        """The number of records for which each event time stands."""
        positions = (self.end - self.start) / len(self.times_ms)
        return np.broadcast_to(positions * np.asarray(self.densities), len(self.times_ms))

    @property
    def least_ms(self) -> NDArray[np.int64]:
        """The least time that a row may have, for each event time: samples draw which rows are out of order."""
        if self.sampled_least_ms is not None:
            return np.minimum(self.sampled_least_ms, self.times_ms)
        return np.maximum.accumulate(self.times_ms) - self.disorder_ms

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

    def bars(self, begin_ms: float, end_ms: float, number: int) -> list[float]:
        """Return the rows in each of some equal parts of event time, ``end_ms`` included."""
        rows, _ = np.histogram(self.times_ms, number, (begin_ms, end_ms), weights=self.rows_of_each)
        return [float(number) for number in rows]


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


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The rows of each split, as far as they are known.

    histories: those of the splits with rows.
    by_spark: yields the positions after each batch of Spark's own source, with a budget.
    planned: the rows of the splits that tidegate plans; the same ones in another order for objects.
    by_tidegate: yields the positions in ``planned`` after each batch, with a max drift in ms and a budget.
    budget: the limits of a batch that Spark's own source also has.
    units: how many positions of Kafka, or objects, there are to read.
    empty: the splits without any rows with an event time.
    blind: the splits with many rows that the time index cannot see; only samples show their event times.
    watermark_from: the place of marks in records, if the source has them.
    marks: the greatest mark in the samples of each split.
    notes: further remarks on splits.
    judged_by: where the event times come from, for people.
    are_objects: the splits are parts of all objects, in the order in which Spark reads them.
    column: the event time in a query.
    bytes_per_row: the mean size of a row as stored.
    now_ms: the driver's clock.
    """

    histories: Mapping[SplitId, History]
    by_spark: Callable[[Budget], Iterator[Positions]]
    planned: Mapping[SplitId, History]
    by_tidegate: Callable[[int, Budget], Iterator[Positions]]
    budget: Budget
    units: int
    bytes_per_row: float
    now_ms: int
    empty: Collection[SplitId] = ()
    blind: Collection[SplitId] = ()
    watermark_from: str | None = None
    marks: Mapping[SplitId, int] = field(default_factory=dict)
    notes: Mapping[SplitId, Sequence[str]] = field(default_factory=dict)
    judged_by: str = "the records' own timestamps"
    are_objects: bool = False
    column: str = "timestamp"

    @property
    def word(self) -> str:
        """A split, for people."""
        return "part" if self.are_objects else "partition"

    @cached_property
    def shown_span(self) -> tuple[int, int]:
        """The event times, in ms, between which the rows lie, without the few at each end that lie far away."""
        histories = self.histories.values()
        rows = np.concatenate([history.rows_of_each for history in histories])
        times = np.concatenate([history.times_ms for history in histories])
        order = np.argsort(times)
        shares = np.cumsum(rows[order]) / rows.sum()
        begin_ms, end_ms = (int(times[order][np.searchsorted(shares, share)]) for share in (_FEW, 1 - _FEW))
        near_ms = (end_ms - begin_ms) // MUCH
        first_ms, last_ms = int(times.min()), int(times.max())
        return (
            first_ms if begin_ms - first_ms <= near_ms else begin_ms,
            last_ms if last_ms - end_ms <= near_ms else end_ms,
        )
