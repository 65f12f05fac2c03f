"""The contract of a split enumerator: the half of a connector that runs on the driver.

All methods are called from one thread of the query's planner process.  Each has its own deadline
and its own retries: what it raises ends the query, and Spark sets no time limit of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Extent, Positions, SplitId, SplitRange

__all__ = [
    "Divergence",
    "Json",
    "SplitEnumerator",
    "SupportsAvailability",
    "SupportsClock",
    "SupportsCommit",
    "SupportsCost",
    "SupportsDetails",
    "SupportsMetrics",
    "SupportsValidation",
]

Json: TypeAlias = dict[str, Any]


class SplitEnumerator(ABC):
    """Discovers splits and says what of them can be read (FLIP-27: SplitEnumerator).

    One instance per run of a query, made in the planner process.  The constructor opens nothing.
    An enumerator that also has ``peek`` and ``latest`` (SupportsPeek), or ``lookup`` on top
    (SupportsTimeIndex), can be aligned in event time.
    """

    @abstractmethod
    def discover(self) -> Collection[SplitId]:
        """Return all splits there are now.

        Called at the start and then once per discovery interval.  A split that is missing from the
        answer is removed: it is not read any further, and goes on where it stood should it come
        back.  Raises ConnectorError when what the user named does not exist.
        """

    def forget(self, removed: Positions) -> Collection[SplitId]:
        """Return those of the removed splits that nobody need remember.

        Nothing of them is unread, or what is unread is gone for good and its loss is accepted.  Called
        after ``discover`` when splits that were read are missing from its answer.
        """
        del removed
        return ()

    def lost(self, removed: Positions) -> Collection[SplitId]:
        """Return those of the removed splits that exist no more, so that unread records are gone.

        Called after ``forget``, for the others.  They are data loss (``failOnDataLoss``); a split
        that is only not wanted any more is reported, and remembered.
        """
        return removed.keys()

    @abstractmethod
    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Return where reading of each split begins.

        Called once in the life of a checkpoint for every split; the answer is stored in it.
        first: the query begins with these splits; otherwise they appeared later, and are to be
        read from their beginning, or their first records would be lost.
        """

    def stops(self, splits: Collection[SplitId]) -> Mapping[SplitId, int | None]:
        """Return the configured end of each split, exclusive; None: it is read for ever.

        Called once per run for every split, and again for one that was forgotten and came back.  The
        default is for sources whose ends nobody configures.
        """
        return dict.fromkeys(splits)

    @abstractmethod
    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return what can be read of each split now.

        Called before every plan; while nothing comes, that is every 100 ms.  An end never goes back
        unless data was lost.  A split that has just vanished may be left out.
        """

    def snapshot(self) -> Json | None:
        """Return what a restart needs beyond positions; None: nothing.

        Called once per plan, so it must be cheap, and equal as long as nothing changed: it is a
        part of the offset, and another offset means another batch.  Small: Spark keeps the last
        100 offsets.  Given back to ``Source.enumerator`` by the next run.
        """
        return None

    def close(self) -> None:  # noqa: B027 - many enumerators hold nothing
        """Free what is held.  Called at the end of the run, perhaps twice, perhaps never (SIGKILL)."""


@runtime_checkable
class SupportsClock(Protocol):
    """Knows the time of the side that is read from; without it the driver's clock counts."""

    def wall_clock(self) -> float:
        """Return that side's time in seconds since the epoch.  Called once per plan: no I/O."""


@runtime_checkable
class SupportsCommit(Protocol):
    """Frees what is kept for records that are not written yet."""

    def commit(self, positions: Positions) -> None:
        """Learn that the batches up to these positions are written, and their offset is stored.

        Called before every plan, and so not for a run's last batch: the next run says it.
        """


@dataclass(frozen=True, slots=True)
class Divergence:
    """The fate of a split that does not hold any more what was read of it.

    reason: such as "the topic was deleted and recreated", a clause for errors and logs.
    position: where to go on: all that was never read is at or after it.
    """

    reason: str
    position: int


@runtime_checkable
class SupportsValidation(Protocol):
    """Can tell whether positions still mean what they meant, though the split has the same name."""

    def validate(self, positions: Positions) -> Mapping[SplitId, Divergence]:
        """Return those of the splits whose records before the position are not those that were read.

        Called before every plan, after ``extents``, so it must be cheap as long as nothing changed.
        They are data loss (``failOnDataLoss``); without it they are read from the divergence's
        position on.  Each is told once per run; ``snapshot`` does not tell it again either.
        """


@runtime_checkable
class SupportsAvailability(Protocol):
    """Can do with the splits that can be looked at while others cannot, such as those of a broker that is away."""

    def available_extents(self, splits: Collection[SplitId]) -> tuple[Mapping[SplitId, Extent], Mapping[SplitId, str]]:
        """Return the extents of the splits that are available, and a reason for each of the others, a clause.

        Called in place of ``extents`` before every plan but a query's first and those of bounded runs,
        which need all splits.  A split without an extent is not read and not asked about; it holds bound and
        watermark where they are.  After this call ``peek`` and the like may raise UnavailableError for a
        split that is away by then: it is called again, and another plan is made.

        Raises DeadlineError when none is available for long.
        """


@runtime_checkable
class SupportsDetails(Protocol):
    """Knows what a reader needs and cannot find out from a range."""

    def details(self, wanted: SplitRange) -> Any:
        """Return what goes with a range to its reader, picklable; with it the same range gives the same rows.

        Called for every range of every task, also for a batch that an earlier run planned.
        """


@runtime_checkable
class SupportsCost(Protocol):
    """Knows what ranges cost to read; without it positions count as rows.

    positions_are_rows: the cost in rows is the number of positions, so that it need not be asked for
        where rows alone are limited.
    """

    positions_are_rows: bool

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return the cost of the ranges.

        Called many times per plan, and when a batch is divided into tasks: no I/O.  It follows from the
        ranges alone, also in a run that has not discovered their splits yet, or the same batch would be
        divided differently.  Rows may be too many, never too few.
        """


@runtime_checkable
class SupportsMetrics(Protocol):
    """Has figures of its own to tell people (Spark: ReportsSourceMetrics)."""

    def metrics(self) -> Mapping[str, int]:
        """Return figures of this run by the names that progress shows them under; few, since Spark keeps them twice.

        Called once per plan: no I/O.  Names are camelCase, and where the field has one, that one
        (Auto Loader: ``approximateQueueSize``).
        """


@runtime_checkable
class SupportsOvershoot(Protocol):
    """Has positions that hold records of several event times, and are read whole; without it none passes a bound."""

    def overshoot_ms(self, ranges: Mapping[SplitId, SplitRange], bound_ms: int) -> int:
        """Return by how much the greatest event time in the ranges is beyond a bound; at least 0.

        Called once per plan, with its ranges: no I/O.
        """
