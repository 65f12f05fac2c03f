"""The contract of a split enumerator: the half of a connector that runs on the driver.

All methods are called from one thread of the query's planner process.  Each has its own deadline and its own retries:
its errors end the query, and Spark sets no time limit of its own.

A connector without an index of its own peeks through its reader: ``ReaderPeek`` adapts a SplitReader, and the planner
bisects with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from tidegate.alignment.budget import Cost
from tidegate.alignment.index import Peeking
from tidegate.alignment.splits import Extent, Extents, Head, Horizon, Positions, SplitId, SplitRange
from tidegate.readers.contract import ReadTask, SplitReader

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Divergence:
    """A split that no longer holds the records that were read of it.

    reason: a clause for errors and logs, such as "the topic was deleted and recreated".
    position: where to continue; all unread records are at or after it.
    """

    reason: str
    position: int


@dataclass(frozen=True, slots=True)
class Completeness:
    """The event time up to which a source has all records that it will ever have.

    until_ms: all records up to this time are discovered; None: nothing is known to be complete.
    next_ms: the event time of the first known records that may be incomplete.
    """

    until_ms: int | None
    next_ms: int | None


class OwnHooks:
    """What planning asks for the sake of one of tidegate's own connectors.

    The contract does not ask for this: other connectors keep these answers.

    new_splits_are_news: whether the log names splits that are found during a run.
    """

    new_splits_are_news = True

    def available_extents(
        self, splits: Collection[SplitId]
    ) -> tuple[Mapping[SplitId, Extent], Mapping[SplitId, str]] | None:
        """Return the extents of the available splits, and the reason for each unavailable one, as a clause.

        None: ``extents`` is called.  Called before every plan, except the first plan of a query and the plans of
        bounded runs, which need all splits.  A split without an extent is neither read nor peeked at; it holds back the
        bound and the watermark.  After this call, methods such as ``peek`` may raise UnavailableError for a split that
        has become unavailable.  Then this method is called again, for another plan.

        Raises DeadlineError when no split has been available for a long time.
        """
        del splits
        return None

    def begin_plan(self, positions: Positions, held_from_ms: int) -> None:
        """Learn how far each split was read, and from which event time on records wait for the clock.

        held_from_ms: ``NEVER_MS``: none waits.

        Called before every plan, before the extents: no I/O.
        """
        del positions, held_from_ms

    def validate(self, positions: Positions) -> Mapping[SplitId, Divergence]:
        """Return the splits whose records before the position are not those that were read.

        Called before every plan, after the extents, so it must be cheap as long as nothing changed.  They are data loss
        (``failOnDataLoss``); if that is accepted, they are read from the divergence's position on.  Each is returned
        once, even if a later run begins with this ``snapshot``.
        """
        del positions
        return {}

    def take_moved_stops(self) -> Collection[SplitId]:
        """Return the splits whose ends no longer hold since the last call: ``stops`` is called for them again.

        Called after ``validate``: no I/O.
        """
        return ()

    def wait(self, seconds: float) -> bool:
        """Wait until extents may have changed, or a time limit is reached; return whether they may have changed.

        Called in place of the extents while no data comes, some ten times a second.  This is also true in an alignment
        group, with watermark generators, and while a batch waits for more rows.  The answer is a hint: extents are
        requested every few seconds anyway.  Returns True at once if it cannot tell.  Raises nothing.
        """
        del seconds
        return True

    def completeness(self) -> Completeness | None:
        """Return how far the records are complete now, such as by marker objects; None: that is not known.

        Called once per plan, after the extents, if the source's watermark follows it: no I/O.  A restarted query must
        continue from the snapshot in the last offset.
        """
        return None

    def overshoot_ms(self, ranges: Mapping[SplitId, SplitRange], bound_ms: int) -> int:
        """Return by how much the greatest event time in the ranges passes a bound; at least 0.

        It may if positions have records of several event times, which are read whole.  Called once per plan, with its
        ranges: no I/O.
        """
        del ranges, bound_ms
        return 0

    def has_news(self, stored: Json | None) -> bool:
        """Return whether the next run needs what ``stored``, the snapshot in the last offset, does not say.

        Called once per plan that changes nothing else: no I/O.  If so, a batch without rows stores the new snapshot.
        """
        del stored
        return False

    def own_progress(self, positions: Positions, ends: Positions) -> Json:
        """Return entries of the progress that users know from a source that this one replaces.

        positions, ends: of the splits that can be read, after the plan.  Entries of every source replace them.  Called
        once per plan: no I/O.
        """
        del positions, ends
        return {}


class SplitEnumerator(Peeking, OwnHooks):
    """Discovers splits, and reports which of their positions can be read (FLIP-27: SplitEnumerator).

    One instance per run of a query, made in the planner process.  The constructor opens nothing.
    With ``lookup`` (SupportsTimeIndex), plans need few requests; without it, peeks bisect.
    """

    @abstractmethod
    def discover(self) -> Collection[SplitId]:
        """Return all splits that exist now.

        Called at the start and then once per discovery interval.  A split that is missing from the answer counts as
        removed, and is no longer read.  If it comes back, it continues from its old position.  Raises ConnectorError if
        something that the user named does not exist.
        """

    def forget(self, removed: Positions) -> Collection[SplitId]:
        """Return the removed splits that need not be remembered.

        They have no unread records, or their unread records are gone for good and the loss is accepted.  Called after
        ``discover`` when splits that were read are missing from its answer.
        """
        del removed
        return ()

    def lost(self, removed: Positions) -> Collection[SplitId]:
        """Return the removed splits that no longer exist, so that unread records are gone.

        Called after ``forget``, for the other removed splits.  These are data loss (``failOnDataLoss``).  A split that
        exists but is no longer subscribed is not among them: its position is remembered.
        """
        return removed.keys()

    @abstractmethod
    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Return the position at which reading of each split begins.

        Called once for every split in the life of a checkpoint, which stores the answer.
        first: the query begins with these splits.  Otherwise they appeared later and must be read from their beginning,
            or their first records would be lost.
        """

    def stops(self, splits: Collection[SplitId]) -> Mapping[SplitId, int | None]:
        """Return the configured end of each split, exclusive; None: it has none, or none yet.

        Called before every plan, after the extents, for the splits that have an extent and no end: at once in each run,
        and up to ten times a second for those whose answer was None, so it must be cheap as long as nothing changed.
        An end is not asked for again, unless the split was forgotten and came back, or holds other records now.  If the
        end is where the split ends at present, it is that of the last extent.  The default is for sources without
        configured ends.
        """
        return dict.fromkeys(splits)

    @abstractmethod
    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return the readable positions of each split.

        Called before every plan, so every 100 ms while no records come.  An end never goes back unless data was lost.
        A split that has just vanished may be left out.
        """

    def snapshot(self) -> Json | None:
        """Return the state that a restart needs beyond positions.

        Called once per plan, so it must be cheap.  The state must be equal as long as nothing changed: it is part of
        the offset, and another offset means another batch.  It must be small, because Spark keeps the last 100 offsets.
        The next run passes it to ``Source.enumerator``.
        """
        return None

    def commit(self, positions: Positions) -> None:
        """Release resources that were kept for records until these are written (FLIP-27: notifyCheckpointComplete).

        The batches up to these positions are written, and their offset is stored.  Called before every plan, so not for
        a run's last batch: the next run commits it.
        """

    def details(self, wanted: SplitRange) -> Any:
        """Return the picklable details of a range that its reader needs; with them the same range gives the same rows.

        Called for every range of every task, even for a batch that an earlier run planned.
        """
        del wanted

    def metrics(self) -> Mapping[str, int]:
        """Return the connector's own metrics of this run by name (Spark: ReportsSourceMetrics); few, or none.

        Called once per plan: no I/O.  Names are camelCase; established names are preferred (Auto Loader:
        ``approximateQueueSize``).
        """
        return {}

    def close(self) -> None:
        """Release all resources.  Called at the end of the run, perhaps twice, perhaps never (SIGKILL)."""


@runtime_checkable
class SupportsCost(Protocol):
    """Knows the cost of ranges; otherwise positions count as rows.

    positions_are_rows: the cost in rows is the number of positions, so ``cost`` is not called if only rows are limited.
    """

    positions_are_rows: bool

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return the cost of the ranges.

        Called many times per plan, and when a batch is divided into tasks: no I/O.  It depends on the ranges alone,
        even in a run that has not discovered their splits yet: otherwise the same batch would be divided differently.
        Rows may be too many, never too few.
        """


HeadsOf = Callable[[pa.RecordBatch, Horizon], Iterable[Head]]
ExtentsOf = Callable[[Collection[SplitId]], Extents]


class ReaderPeek:
    """Peeks by reading the beginning of a range through the connector's own reader; mixed into an enumerator, first.

    reader: reads lazily; only its first batches are taken.
    heads: yields the positions and event times of the records to align by in a batch, in order.
    extents: the enumerator's method of that name.  Each peek calls it, and reads up to the present ends.
    """

    def __init__(self, reader: SplitReader, heads: HeadsOf, extents: ExtentsOf) -> None:
        self._reader, self._heads, self._extents_of = reader, heads, extents

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the first record of each split at or after a position, up to its extent.

        None: it has none, or has just vanished.
        """
        extents = self._extents_of(positions.keys())
        return {
            split: next(self._records(SplitRange(split, at, extents[split].end), horizon), None)
            if split in extents
            else None
            for split, at in positions.items()
        }

    def held(self, ranges: Collection[SplitRange], horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the first record of each range at or past the horizon."""
        return {
            r.split_id: next((head for head in self._records(r, horizon) if head.event_time_ms >= horizon.at_ms), None)
            for r in ranges
        }

    def _records(self, unread: SplitRange, horizon: Horizon) -> Iterator[Head]:
        for batch in self._reader.read(ReadTask((unread,), horizon=horizon)):
            yield from self._heads(batch, horizon)
