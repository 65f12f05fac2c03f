"""The plan of one micro-batch: which records of which splits, cut at one common event time.

``plan`` is the whole decision.  It is run anew at every trigger, holds no state, and returns what
others are to do; they look at nothing else.  The rules are numbered as in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidegate.alignment.batch import Cuts, at_ends, cut_at_one_time, cut_by_position
from tidegate.alignment.budget import UNLIMITED, Budget, Cost, CostOf, split_rows
from tidegate.alignment.cuts import Cut, Cutter, Span
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.splits import Extent, Extents, Positions, SplitId, SplitRange
from tidegate.alignment.states import STATES, SplitState
from tidegate.alignment.watermark import combine, split_watermark
from tidegate.errors import DataLossError

__all__ = ["Limits", "Plan", "Progress", "SplitPlan", "plan"]


@dataclass(frozen=True, slots=True)
class Progress:
    """What a batch leaves behind, and all that the next plan needs to know of the past.

    positions: of every split, its next unread record.
    bound_ms: the furthest event time at which batches have been cut: what is delivered lies before
        it.  None: none was cut yet, or the last one read everything.
    watermark_ms: of the source; None: minus infinity.
    idle: the splits that were idle.
    """

    positions: Positions
    bound_ms: int | None = None
    watermark_ms: int | None = None
    idle: frozenset[SplitId] = frozenset()


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a batch.

    aligned: cut all splits at one event time; False: share the budget by backlog.
    max_drift_ms: how far past the lowest head any split may be read; None: no bound.
    out_of_orderness_ms: None: no watermark is wanted.
    budget: what a batch may cost.
    stops: configured ends, exclusive; a split without an entry, or with None, has none.
    bounded: extents do not grow in this run (Trigger.AvailableNow): a split that is read to its
        extent no longer bounds the others, though it still holds the watermark.
    fail_on_data_loss: raise, or skip what is gone.
    cost: of ranges; the default counts positions as rows.
    """

    aligned: bool = True
    max_drift_ms: int | None = None
    out_of_orderness_ms: int | None = 0
    budget: Budget = UNLIMITED
    stops: Mapping[SplitId, int | None] = field(default_factory=dict)
    bounded: bool = False
    fail_on_data_loss: bool = True
    cost: CostOf = split_rows


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """What the plan says of one split.

    next_ms: event time of its next record after the batch, or a lower bound of it; None: none is known.
    late: its head is older than the source's watermark.
    exact: False when the cut was found by probing.
    """

    state: SplitState
    next_ms: int | None = None
    late: bool = False
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What the batch reads, where that leaves the source, and why.

    ranges: only splits that give records; empty when there is nothing to read.
    progress: identical to the old one when the plan reads nothing and moves neither the watermark
        nor an idle flag (rule 8).
    low_ms: the lowest event time that held the bound; None: nothing did.
    splits: the state of every split, removed ones included.
    """

    ranges: Mapping[SplitId, SplitRange]
    progress: Progress
    low_ms: int | None
    splits: Mapping[SplitId, SplitPlan]


def plan(
    progress: Progress,
    extents: Extents,
    idle: Collection[SplitId],
    group_low_ms: int | None,
    index: TimeIndex,
    limits: Limits,
) -> Plan:
    """Decide one micro-batch.

    progress: as the last plan left it, with the starts of new splits among its positions.
    extents: of all splits there are now, taken before anything is asked of ``index``.
    idle: splits that have had nothing to read for the idle timeout; others in it are ignored.
    group_low_ms: the lowest event time of the alignment group's other members; None: no group.

    Called at every trigger.  Raises DataLossError when records between a position and the data
    that is left are gone, or when a split ends before its position.
    """
    board = _Board(progress, extents, idle, index, limits)
    low_ms, bound_ms = board.low_and_bound(group_low_ms) if limits.aligned else (None, None)
    time_ms = None
    if bound_ms is None and board.used(everything := at_ends(board.spans)) <= 1:
        cuts = everything
    elif limits.aligned:
        time_ms, cuts = cut_at_one_time(
            board.spans, Cutter(index, board.spans), board.past_all() if bound_ms is None else bound_ms, board.used
        )
    else:
        cuts = board.with_next_times(cut_by_position(board.spans, everything, board.used))
    return board.conclude(cuts, time_ms, low_ms, bound_ms)


class _Board:
    """The splits as one plan sees them: where each may be read from and to, and its head."""

    def __init__(
        self, before: Progress, extents: Extents, idle: Collection[SplitId], index: TimeIndex, limits: Limits
    ) -> None:
        self.before, self.extents, self.index, self.limits = before, extents, index, limits
        self.starts = {s: self._start(s, before.positions[s], extent) for s, extent in extents.items()}
        self.ends = {s: self._end(s, extent) for s, extent in extents.items()}
        index.forget_before(self.starts)
        unread = {s: start for s, start in self.starts.items() if start < self.ends[s]}
        heads = index.heads(unread)
        self.spans = {
            s: Span(head, start, self.ends[s])
            for s, start in unread.items()
            if (head := heads[s]) is not None and head.position < self.ends[s]
        }
        # Older than the watermark: read and reported, but no reason for others to wait.
        watermark_ms = before.watermark_ms
        self.late = {
            s for s, span in self.spans.items() if watermark_ms is not None and span.head.event_time_ms <= watermark_ms
        }
        # Positions without a record up to the end (markers, holes) are passed over at once.
        self.hollow = {s: Cut(self.ends[s], None) for s in unread if s not in self.spans}
        at_end = self.starts.keys() - unread.keys()
        self.finished = {s for s in at_end if limits.stops.get(s) == self.ends[s]}
        # Not one whose unread records were just deleted: it had something to read until now.
        self.idle = {
            s for s in at_end if s in idle and extents[s].settled and before.positions[s] >= self.ends[s]
        } - self.finished
        self.caught_up = (at_end | self.hollow.keys()) - self.idle - self.finished

    def _start(self, split: SplitId, position: int, extent: Extent) -> int:
        if extent.end < position:
            raise DataLossError(
                f"split {split!r} ends at position {extent.end}, before position {position}, up to which it has been "
                "read: it was truncated or created anew; start with a new checkpoint to read it from its beginning"
            )
        if position < extent.begin and self.limits.fail_on_data_loss:
            raise DataLossError(
                f"positions {position} to {extent.begin - 1} of split {split!r} are gone, deleted before they were "
                "read; set failOnDataLoss to false to go on without them"
            )
        return max(position, extent.begin)

    def _end(self, split: SplitId, extent: Extent) -> int:
        stop = self.limits.stops.get(split)
        return extent.end if stop is None else min(extent.end, stop)

    def latest(self, splits: Collection[SplitId]) -> dict[SplitId, int]:
        """Return the greatest event time before the end of each split that holds a record."""
        found = self.index.latest({s: Extent(self.extents[s].begin, self.ends[s]) for s in splits})
        return {s: latest_ms for s, latest_ms in found.items() if latest_ms is not None}

    def low_and_bound(self, group_low_ms: int | None) -> tuple[int | None, int | None]:
        """Return the event time that holds the splits, and the bound (rules 1 and 2)."""
        times = [span.head.event_time_ms for s, span in self.spans.items() if s not in self.late]
        drift_ms = self.limits.max_drift_ms
        if drift_ms is None:
            return min(times, default=None), None
        # Nothing at or before the watermark can be saved from being late by waiting for it.
        watermark_ms = self.before.watermark_ms
        in_time_ms = None if watermark_ms is None else watermark_ms + 1
        if not self.limits.bounded:
            caught_up = self.latest(self.caught_up).values()
            times += caught_up if in_time_ms is None else [max(t, in_time_ms) for t in caught_up]
        low_ms = min(times, default=None)
        # Late splits alone hold nobody, but must be read, and not beyond the drift either.
        held_ms = in_time_ms if low_ms is None else low_ms
        bound_ms = _greatest(self.before.bound_ms, None if held_ms is None else held_ms + drift_ms)
        if group_low_ms is not None:
            low_ms = group_low_ms if low_ms is None else min(low_ms, group_low_ms)
            group_bound_ms = group_low_ms + drift_ms
            bound_ms = group_bound_ms if bound_ms is None else min(bound_ms, group_bound_ms)
        return low_ms, bound_ms

    def past_all(self) -> int:
        """Return an event time after all that is unread: the bound where only the budget bounds."""
        return 1 + max([span.head.event_time_ms for span in self.spans.values()] + [*self.latest(self.spans).values()])

    def ranges(self, cuts: Mapping[SplitId, Cut]) -> dict[SplitId, SplitRange]:
        starts = self.starts
        return {s: SplitRange(s, starts[s], cut.position) for s, cut in cuts.items() if cut.position > starts[s]}

    def used(self, cuts: Cuts) -> float:
        """Return what share of the budget the cuts take; holes before a head cost nothing."""
        if self.limits.budget == UNLIMITED:
            return 0.0
        spans, cost = self.spans, self.limits.cost
        if cost is split_rows:  # a search asks often and for all splits: without an object for each
            rows = sum([max(0, cut.position - spans[s].head.position) for s, cut in cuts.items()])
            return self.limits.budget.used(Cost(rows))
        ranges = {
            s: SplitRange(s, head, cut.position)
            for s, cut in cuts.items()
            if cut.position > (head := spans[s].head.position)
        }
        return self.limits.budget.used(cost(ranges))

    def with_next_times(self, cuts: Cuts) -> Cuts:
        """Return cuts that were made without looking at times, with what follows them for the watermark."""
        if self.limits.out_of_orderness_ms is None:
            return cuts
        heads = self.index.heads({s: cut.position for s, cut in cuts.items() if cut.position < self.spans[s].end})
        return {
            s: cut if (head := heads.get(s)) is None else Cut(cut.position, head.event_time_ms)
            for s, cut in cuts.items()
        }

    def conclude(self, cuts: Cuts, time_ms: int | None, low_ms: int | None, bound_ms: int | None) -> Plan:
        """Turn cuts into ranges, new positions, states and the watermark."""
        all_cuts = {**self.hollow, **cuts}
        ranges = self.ranges(all_cuts)
        splits = {s: self._describe(s, all_cuts.get(s), s in ranges, bound_ms) for s in self.extents}
        splits.update({s: SplitPlan(SplitState.REMOVED) for s in self.before.positions if s not in self.extents})
        reads_records = any(s in ranges for s in cuts)
        cut_ms = None if time_ms is None else _greatest(self.before.bound_ms, time_ms)
        after = Progress(
            positions={s: all_cuts[s].position if s in all_cuts else start for s, start in self.starts.items()},
            bound_ms=cut_ms if reads_records else self.before.bound_ms,
            watermark_ms=_greatest(self.before.watermark_ms, self._watermark(splits, time_ms)),
            idle=frozenset(self.idle),
        )
        return Plan(ranges, self.before if after == self.before else after, low_ms, splits)

    def _describe(self, split: SplitId, cut: Cut | None, read: bool, bound_ms: int | None) -> SplitPlan:
        if cut is None:
            state = SplitState.CAUGHT_UP
            if split in self.finished:
                state = SplitState.FINISHED
            elif split in self.idle:
                state = SplitState.IDLE
            return SplitPlan(state)
        state = SplitState.READING
        if not read:
            held = bound_ms is not None and self.spans[split].head.event_time_ms >= bound_ms
            state = SplitState.PAUSED if held else SplitState.UNREAD
        return SplitPlan(state, cut.next_ms, split in self.late, cut.exact)

    def _watermark(self, splits: Mapping[SplitId, SplitPlan], time_ms: int | None) -> int | None:
        disorder_ms = self.limits.out_of_orderness_ms
        if disorder_ms is None:
            return None
        read_to_end = [s for s in self.extents if splits[s].next_ms is None]
        reached = self.latest(read_to_end)
        for split, said in splits.items():
            if said.next_ms is not None:
                reached[split] = said.next_ms if time_ms is None else min(time_ms, said.next_ms)
        holding = {s for s, said in splits.items() if STATES[said.state].in_minimum}
        # A split without a record says nothing (Beam issue 20908: it must not pin the watermark),
        # unless its first records are there already and may only not be read yet.
        if any(s in holding and s not in reached and not self.extents[s].settled for s in read_to_end):
            return None
        return combine(
            [split_watermark(t, disorder_ms) for s, t in reached.items() if s in holding],
            [split_watermark(t, disorder_ms) for s, t in reached.items() if s not in holding],
        )


def _greatest(*times_ms: int | None) -> int | None:
    """Return the greatest of the times that there are."""
    return max((t for t in times_ms if t is not None), default=None)
