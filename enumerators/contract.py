"""The contract of a split enumerator: the half of a connector that runs on the driver.

All methods are called from one thread of the query's planner process.  Each has its own deadline and its own retries:
its errors end the query, and Spark sets no time limit of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Extent, Positions, SplitId, SplitRange

__all__ = [
    "Completeness",
    "Divergence",
    "Json",
    "SplitEnumerator",
    "SupportsAvailability",
    "SupportsClock",
    "SupportsCommit",
    "SupportsCompleteness",
    "SupportsCost",
    "SupportsDetails",
    "SupportsMetrics",
    "SupportsNarrowing",
    "SupportsValidation",
    "SupportsWaiting",
]

Json: TypeAlias = dict[str, Any]


class SplitEnumerator(ABC):
    """Discovers splits, and tells which of their positions can be read (FLIP-27: SplitEnumerator).

    One instance per run of a query, made in the planner process.  The constructor opens nothing.
    An enumerator that also has ``peek`` and ``latest`` (SupportsPeek), or ``lookup`` on top
    (SupportsTimeIndex), can be aligned in event time.
    """

    @abstractmethod
    def discover(self) -> Collection[SplitId]:
        """Return all splits that exist now.

        Called at the start and then once per discovery interval.  A split that is missing from the answer is removed:
        it is not read any further.  If it comes back, it goes on from its old position.  Raises ConnectorError if
        something that the user named does not exist.
        """

    def forget(self, removed: Positions) -> Collection[SplitId]:
        """Return the removed splits that need not be remembered.

        They have no unread records, or these are gone for good and the loss is accepted.  Called after ``discover``
        when splits that were read are missing from its answer.
        """
        del removed
        return ()

    def lost(self, removed: Positions) -> Collection[SplitId]:
        """Return the removed splits that no longer exist, so that unread records are gone.

        Called after ``forget``, for the others.  They are data loss (``failOnDataLoss``).  A split that is only not
        wanted any more is reported, and remembered.
        """
        return removed.keys()

    @abstractmethod
    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Return the position at which reading of each split begins.

        Called once in the life of a checkpoint for every split; the answer is stored in it.
        first: the query begins with these splits.  Otherwise they appeared later and must be read from their beginning,
            or their first records would be lost.
        """

    def stops(self, splits: Collection[SplitId]) -> Mapping[SplitId, int | None]:
        """Return the configured end of each split, exclusive; None: it is read for ever.

        Called once per run for every split, and again for one that was forgotten and came back.  The default is for
        sources without configured ends.
        """
        return dict.fromkeys(splits)

    @abstractmethod
    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return the positions of each split that can be read now.

        Called before every plan, so every 100 ms while no records come.  An end never goes back unless data was lost.
        A split that has just vanished may be left out.
        """

    def snapshot(self) -> Json | None:
        """Return the state that a restart needs beyond positions; None: none.

        Called once per plan, so it must be cheap.  It must be equal as long as nothing changed: it is a part of the
        offset, and another offset means another batch.  Small: Spark keeps the last 100 offsets.  Given back to
        ``Source.enumerator`` by the next run.
        """
        return None

    def close(self) -> None:  # noqa: B027 - many enumerators hold nothing
        """Release all resources.  Called at the end of the run, perhaps twice, perhaps never (SIGKILL)."""


@runtime_checkable
class SupportsClock(Protocol):
    """Knows the time of the system that is read; without it the driver's clock counts."""

    def wall_clock(self) -> float:
        """Return that system's time in seconds since the epoch.  Called once per plan: no I/O."""


@runtime_checkable
class SupportsCommit(Protocol):
    """Releases resources that are kept for records until they are written."""

    def commit(self, positions: Positions) -> None:
        """Learn that the batches up to these positions are written, and their offset is stored.

        Called before every plan, so not for a run's last batch: the next run commits it.
        """


@dataclass(frozen=True, slots=True)
class Divergence:
    """A split that no longer holds the records that were read of it.

    reason: such as "the topic was deleted and recreated", a clause for errors and logs.
    position: from which to go on: all unread records are at or after it.
    """

    reason: str
    position: int


@runtime_checkable
class SupportsValidation(Protocol):
    """Can tell whether positions still name the same records, although the split has the same name."""

    def validate(self, positions: Positions) -> Mapping[SplitId, Divergence]:
        """Return the splits whose records before the position are not those that were read.

        Called before every plan, after ``extents``, so it must be cheap as long as nothing changed.  They are data loss
        (``failOnDataLoss``); without it they are read from the divergence's position on.  Each is returned once per
        run; a run from ``snapshot`` does not return it again either.
        """


@runtime_checkable
class SupportsAvailability(Protocol):
    """Can work without some splits that are unavailable now, such as those of a broker that is away."""

    def available_extents(self, splits: Collection[SplitId]) -> tuple[Mapping[SplitId, Extent], Mapping[SplitId, str]]:
        """Return the extents of the available splits, and for each of the others the reason, as a clause.

        Called in place of ``extents`` before every plan but a query's first and those of bounded runs, which need all
        splits.  A split without an extent is neither read nor peeked at; it holds the bound and the watermark.  After
        this call ``peek`` and the like may raise UnavailableError for a split that has become unavailable: then this
        method is called again, for another plan.

        Raises DeadlineError when none is available for long.
        """


@runtime_checkable
class SupportsWaiting(Protocol):
    """Is told of news by the system that is read, so that nobody has to ask for extents that stay the same."""

    def wait(self, seconds: float) -> bool:
        """Wait until extents may have changed since the last ``extents``, at most so long; return whether they may.

        Called in place of ``extents`` while nothing came, some ten times a second: also in an alignment group, with
        watermark generators, and while a batch is put off for more rows.  It is advice: extents are asked for every few
        seconds, whatever it returns.  True at once where nobody can tell.  Raises nothing.
        """


@runtime_checkable
class SupportsDetails(Protocol):
    """Knows facts that a reader needs besides a range."""

    def details(self, wanted: SplitRange) -> Any:
        """Return the details of a range for its reader, picklable; with them the same range gives the same rows.

        Called for every range of every task, also for a batch that an earlier run planned.
        """


@runtime_checkable
class SupportsCost(Protocol):
    """Knows the cost of ranges; without it positions count as rows.

    positions_are_rows: the cost in rows is the number of positions, so ``cost`` is not called if only rows are limited.
    """

    positions_are_rows: bool

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return the cost of the ranges.

        Called many times per plan, and when a batch is divided into tasks: no I/O.  It depends on the ranges alone,
        even in a run that has not discovered their splits yet: otherwise the same batch would be divided differently.
        Rows may be too many, never too few.
        """


@dataclass(frozen=True, slots=True)
class Completeness:
    """Up to what event time a source has all records that it will ever have.

    until_ms: no record at or before it is still to be discovered; None: nothing is known to be complete.
    next_ms: the event time from which on records are known that may not be all; None: there are none.
    """

    until_ms: int | None
    next_ms: int | None


@runtime_checkable
class SupportsCompleteness(Protocol):
    """Is told when its records are complete, such as by marker objects."""

    def completeness(self) -> Completeness:
        """Return what is complete now.

        Called once per plan, after ``extents``, where the source's watermark goes by it: no I/O.  A restart must go on
        from what the snapshot of the last offset says.
        """


@runtime_checkable
class SupportsMetrics(Protocol):
    """Has figures of its own for the progress (Spark: ReportsSourceMetrics)."""

    def metrics(self) -> Mapping[str, int]:
        """Return figures of this run by their names in the progress; few, because Spark keeps them twice.

        Called once per plan: no I/O.  Names are camelCase, and existing ones if there are any (Auto Loader:
        ``approximateQueueSize``).
        """


@runtime_checkable
class SupportsNarrowing(Protocol):
    """Can leave records out of a batch query that its filters do not pass."""

    def narrowed(self, ranges: Collection[SplitRange]) -> Collection[SplitRange]:
        """Return the parts of the ranges that are read.  Called once per batch query, never in a stream."""


@runtime_checkable
class SupportsOvershoot(Protocol):
    """Has positions with records of several event times, which are read whole; without it no batch passes its bound."""

    def overshoot_ms(self, ranges: Mapping[SplitId, SplitRange], bound_ms: int) -> int:
        """Return by how much the greatest event time in the ranges passes a bound; at least 0.

        Called once per plan, with its ranges: no I/O.
        """
