"""What a preview has seen of a source: its rows, and the batches that Spark and tidegate make of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import Positions, SplitId
from tidegate.jobs.preview.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The rows of each split, as far as they are known.

    histories: those of the splits with rows.
    by_spark: yields the positions after each batch of Spark's own source, with a budget.
    planned: the rows of the splits that tidegate plans; the same ones in another order for objects.
    by_tidegate: yields the positions in ``planned`` after each batch, with a max drift in ms and a budget.
    budget: the limits of a batch that Spark's own source has, too.
    units: how many positions of Kafka, or objects, there are to read.
    empty: the splits without any rows.
    blind: the splits with many rows that the time index cannot see; only samples tell their event times.
    watermark_from: the place of marks in records, if the source has them.
    marks: the greatest mark in the samples of each split.
    notes: further remarks on splits.
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
    are_objects: bool = False
    column: str = "timestamp"

    @property
    def word(self) -> str:
        """A split, for people."""
        return "part" if self.are_objects else "partition"
