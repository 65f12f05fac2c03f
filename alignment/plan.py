"""The inputs and the results of a plan, and the states of splits.

A state is never stored: every plan derives it from positions, extents, idle timers and the bound.  ``holders`` says
which states hold back other splits.  A paused split never becomes idle: it has records to read (FLINK-35886,
FLINK-36751).

                       +--------------------------------------+
                       v                                      |
    UNREAD <------> READING <------> CAUGHT_UP ------------> IDLE
       ^               ^                 |    <--------------+
       |               v                 v
       +-----------> PAUSED          FINISHED            (any) <-> REMOVED
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from tidegate.alignment.budget import UNLIMITED, Budget, CostOf, split_rows
from tidegate.alignment.generators import SplitWatermark
from tidegate.alignment.splits import NEVER_MS, Extents, Positions, SplitId, SplitRange


class SplitState(Enum):
    """The state of a split after a plan."""

    UNREAD = "unread"
    """Has records before the bound, but none of them fit into the batch."""
    READING = "reading"
    """Contributes records to the batch."""
    PAUSED = "paused"
    """Its next record is at or past the bound: nothing is read until the others have caught up."""
    CAUGHT_UP = "caught up"
    """Nothing to read now; more may come at any moment."""
    IDLE = "idle"
    """Settled, with nothing to read for the idle timeout: it no longer holds back the others."""
    FINISHED = "finished"
    """At its configured end, or complete: no more records will come."""
    REMOVED = "removed"
    """Not discovered.  If it comes back, it continues from its old position."""


# A tuple, because looking up an enum in a set is slow, and there may be 10,000 splits.
_RELEASED = (SplitState.IDLE, SplitState.FINISHED, SplitState.REMOVED)


def holders(states: Mapping[SplitId, SplitState]) -> set[SplitId]:
    """Return the splits that count for the minimum over all."""
    return {split for split, state in states.items() if state not in _RELEASED}


LateSplits: TypeAlias = Literal["admit", "catch-up", "fail"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a source after a batch: all that the next plan needs to know of the past.

    positions: the next unread record of every split.
    bound_ms: the greatest event time at which batches have been cut.  Everything delivered is before it, up to the
        disorder of splits that are cut by probing.  None: no batch was cut yet, or the last one read everything.
    watermark_ms: the source's watermark; None: minus infinity.
    late: splits that came, or woke from idle, with records older than the watermark, and have not
        caught up with it yet.
    removed: the splits that have positions but no longer exist.
    ended: every split is at its configured end: the watermark is plus infinity, whatever
        ``watermark_ms`` says, unless a later run moves the ends.
    """

    positions: Positions
    bound_ms: int | None = None
    watermark_ms: int | None = None
    idle: frozenset[SplitId] = frozenset()
    late: frozenset[SplitId] = frozenset()
    removed: frozenset[SplitId] = frozenset()
    ended: bool = False

    @property
    def in_time_ms(self) -> int | None:
        """The first event time that is not late; waiting cannot save earlier records."""
        return None if self.watermark_ms is None else self.watermark_ms + 1


@dataclass(frozen=True, slots=True)
class Observed:
    """What a plan knows of a source: all I/O but that of the time index is done.

    progress: after the last plan, with the starts of new splits among its positions.
    extents: of all splits that exist now, taken before the index is asked.
    idle: splits that have had nothing to read for the idle timeout; others in it are ignored.
    starts: the starts of splits that are new, or hold other records than before.
    hollow: the begins of long stretches before positions that have no record to align by, if an earlier run found them.
    generated: the watermarks of the splits by their generators, from the rows that were read; None: the source has no
        generators.
    complete_ms: no record at or before it is still to be discovered; None: that is not known.
    """

    progress: Progress
    extents: Extents
    idle: Collection[SplitId] = ()
    starts: Positions = field(default_factory=dict)
    hollow: Positions = field(default_factory=dict)
    generated: Mapping[SplitId, SplitWatermark] | None = None
    complete_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a batch.

    aligned: cut all splits at one event time; False: share the budget by backlog.
    max_drift_ms: how far past the lowest head any split may be read.
    out_of_orderness_ms: None: no watermark is planned.
    by_completeness: the watermark is how far the source is complete, and read.
    stops: configured ends, exclusive; a split without an entry, or with None, has none.
    fail_on_data_loss: raise an error if records are gone; False: skip them.
    late_splits: the policy for a split that comes, or wakes, with records older than the watermark.  It is read at once
        and its rows are late (admit), the others wait for it (catch-up), or the query ends (fail).
    horizon_ms: the first event time in the future, by the one clock of the batch.
    holds_future: nothing from the horizon on is read; False: the index leaves it out.
    cost: returns the cost of ranges; the default counts positions as rows.
    """

    aligned: bool = True
    max_drift_ms: int | None = None
    out_of_orderness_ms: int | None = 0
    generated: bool = False
    by_completeness: bool = False
    budget: Budget = UNLIMITED
    stops: Mapping[SplitId, int | None] = field(default_factory=dict)
    fail_on_data_loss: bool = True
    late_splits: LateSplits = "admit"
    horizon_ms: int = NEVER_MS
    holds_future: bool = True
    cost: CostOf = split_rows

    @property
    def held_from_ms(self) -> int | None:
        """The event time from which on records wait for the clock."""
        return self.horizon_ms if self.holds_future and self.horizon_ms < NEVER_MS else None

    def holds(self, event_time_ms: int) -> bool:
        """Return whether a record waits for the clock."""
        return self.holds_future and event_time_ms >= self.horizon_ms

    @property
    def wants_watermark(self) -> bool:
        """Whether the source has a watermark of any kind."""
        return self.generated or self.by_completeness or self.out_of_orderness_ms is not None


class SplitPlan(NamedTuple):
    """The plan's decision about one split.

    next_ms: event time of its next record after the batch, or a lower bound for it.
    late: it came, or woke, with records older than the source's watermark, and had not caught up.
    late_rows: the number of positions in the batch before the first record that is not older than the source's
        watermark.
    """

    state: SplitState
    next_ms: int | None = None
    late: bool = False
    late_rows: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges of a batch, the state of the source after it, and the reasons.

    ranges: the range of each split that contributes records; empty when there is nothing to read.
    ends: the positions up to which the splits can be read now, by their extents or their configured ends.
    progress: identical to the old one when the plan reads nothing and moves neither the watermark
        nor an idle flag (rule 8).
    low_ms: the lowest event time that held back the bound.
    held_by: the split, or the other member of the group, that sets the bound.
    group_bound_ms: the bound that the other members of the group set for this source.
    next_low_ms: the lowest event time that is still unread after the batch and holds back others.
    splits: the state of every split, removed ones included.
    oldest_ms: the earliest event time among the first records of the ranges.
    generators: for each split that is there and has a generator, whether it holds back the source's watermark.
    """

    ranges: Mapping[SplitId, SplitRange]
    ends: Positions
    progress: Progress
    low_ms: int | None
    held_by: str | None
    group_bound_ms: int | None
    next_low_ms: int | None
    splits: Mapping[SplitId, SplitPlan]
    oldest_ms: int | None = None
    generators: Mapping[SplitId, bool] = field(default_factory=dict)
