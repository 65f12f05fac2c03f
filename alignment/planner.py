"""The plan of one micro-batch: which records of which splits, cut at one common event time.

``plan`` is the whole decision.  It is run anew at every trigger, holds no state, and returns what
others are to do; they look at nothing else.  The rules are numbered as in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidegate.alignment.budget import UNLIMITED, Budget, CostOf, greatest_time_within, share, split_rows
from tidegate.alignment.index import Cut, Span, TimeIndex
from tidegate.alignment.splits import Extent, Extents, Positions, SplitId, SplitRange
from tidegate.alignment.states import STATES, SplitState
from tidegate.alignment.watermark import advance, combine, split_watermark
from tidegate.errors import DataLossError

__all__ = ["Limits", "Plan", "Progress", "SplitPlan", "plan"]


@dataclass(frozen=True, slots=True)
class Progress:
    """What a batch leaves behind, and all that the next plan needs to know of the past.

    positions: of every split, its next unread record.
    bound_ms: no record at or after this time has been delivered; None: nothing was bounded yet.
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
    if limits.aligned:
        low_ms, bound_ms = board.low_and_bound(group_low_ms)
        time_ms, cuts = _cut_at_one_time(board, bound_ms)
    else:
        low_ms, bound_ms, time_ms = None, None, None
        cuts = _cut_by_backlog(board)
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
        # Positions without a record up to the end (markers, holes) are passed over at once.
        self.hollow = {s: Cut(self.ends[s], None) for s in unread if s not in self.spans}
        at_end = [s for s, start in self.starts.items() if start >= self.ends[s]]
        self.finished = {s for s in at_end if self._stop(s) == self.ends[s]}
        self.idle = {s for s in at_end if s in idle and extents[s].settled} - self.finished
        self.caught_up = {s for s in at_end if s not in self.idle and s not in self.finished} | self.hollow.keys()

    def _stop(self, split: SplitId) -> int | None:
        return self.limits.stops.get(split)

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
        stop = self._stop(split)
        return extent.end if stop is None else min(extent.end, stop)

    def late(self, split: SplitId) -> bool:
        """Tell whether the split's head is older than the watermark: it is read, but holds nobody."""
        watermark_ms = self.before.watermark_ms
        return watermark_ms is not None and split in self.spans and self.spans[split].head.event_time_ms <= watermark_ms

    def latest(self, splits: Collection[SplitId]) -> dict[SplitId, int | None]:
        return self.index.latest({s: self.ends[s] for s in splits})

    def low_and_bound(self, group_low_ms: int | None) -> tuple[int | None, int | None]:
        """Return the event time that holds the splits, and the bound (rules 1 and 2)."""
        times = [span.head.event_time_ms for s, span in self.spans.items() if not self.late(s)]
        drift_ms = self.limits.max_drift_ms
        if drift_ms is None:
            return min(times, default=None), None
        if not self.limits.bounded:
            times += [t for t in self.latest(self.caught_up).values() if t is not None]
        own_low_ms = min(times, default=None)
        bounds = [self.before.bound_ms] if self.before.bound_ms is not None else []
        if own_low_ms is not None:
            bounds.append(own_low_ms + drift_ms)
        bound_ms = max(bounds, default=None)
        if group_low_ms is None:
            return own_low_ms, bound_ms
        group_bound_ms = group_low_ms + drift_ms
        return (
            group_low_ms if own_low_ms is None else min(own_low_ms, group_low_ms),
            group_bound_ms if bound_ms is None else min(bound_ms, group_bound_ms),
        )

    def ranges(self, cuts: Mapping[SplitId, Cut]) -> dict[SplitId, SplitRange]:
        starts = self.starts
        return {s: SplitRange(s, starts[s], cut.position) for s, cut in cuts.items() if cut.position > starts[s]}

    def used(self, cuts: Mapping[SplitId, Cut]) -> float:
        return self.limits.budget.used(self.limits.cost(self.ranges(cuts)))

    def conclude(
        self, cuts: Mapping[SplitId, Cut], time_ms: int | None, low_ms: int | None, bound_ms: int | None
    ) -> Plan:
        """Turn cuts into ranges, new positions, states and the watermark."""
        all_cuts = {**self.hollow, **cuts}
        ranges = self.ranges(all_cuts)
        splits = {s: self._describe(s, all_cuts.get(s), s in ranges, bound_ms) for s in self.extents}
        splits.update({s: SplitPlan(SplitState.REMOVED) for s in self.before.positions if s not in self.extents})
        after = Progress(
            positions={s: all_cuts[s].position if s in all_cuts else start for s, start in self.starts.items()},
            bound_ms=self._bound_after(time_ms) if cuts.keys() & ranges.keys() else self.before.bound_ms,
            watermark_ms=advance(self.before.watermark_ms, self._watermark(splits, time_ms)),
            idle=frozenset(self.idle),
        )
        unchanged = (
            not ranges
            and after.positions.keys() == self.before.positions.keys()
            and (after.watermark_ms, after.idle) == (self.before.watermark_ms, self.before.idle)
        )
        return Plan(ranges, self.before if unchanged else after, low_ms, splits)

    def _bound_after(self, time_ms: int | None) -> int | None:
        if time_ms is None or self.before.bound_ms is None:
            return time_ms
        return max(time_ms, self.before.bound_ms)

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
        return SplitPlan(state, cut.next_ms, self.late(split), cut.exact)

    def _watermark(self, splits: Mapping[SplitId, SplitPlan], time_ms: int | None) -> int | None:
        disorder_ms = self.limits.out_of_orderness_ms
        if disorder_ms is None:
            return None
        ahead = {s: said.next_ms for s, said in splits.items() if said.next_ms is not None}
        reached = {s: next_ms if time_ms is None else min(time_ms, next_ms) for s, next_ms in ahead.items()}
        # A split without a record so far says nothing (Beam issue 20908: it must not pin the watermark).
        ended = self.latest([s for s in self.extents if s not in ahead])
        reached.update({s: latest_ms for s, latest_ms in ended.items() if latest_ms is not None})
        holding = [s for s in reached if STATES[splits[s].state].in_minimum]
        released = [s for s in reached if not STATES[splits[s].state].in_minimum]
        return combine(
            [split_watermark(reached[s], disorder_ms) for s in holding],
            [split_watermark(reached[s], disorder_ms) for s in released],
        )


def _cut_at_one_time(board: _Board, bound_ms: int | None) -> tuple[int | None, dict[SplitId, Cut]]:
    """Cut all splits at the bound or, where the budget is smaller, at the greatest time that fits.

    Returns the time, None when all is read to the end without any, and the cuts.
    """
    if not board.spans:
        return None, {}
    blind: set[SplitId] = set()
    while True:
        time_ms, cuts = _choose_time(board, bound_ms, blind)
        if board.index.confirm(cuts, board.spans, blind):
            break
    return time_ms, cuts if board.used(cuts) <= 1 else _cut_by_position(board, cuts)


def _choose_time(board: _Board, bound_ms: int | None, blind: set[SplitId]) -> tuple[int | None, dict[SplitId, Cut]]:
    tried: dict[int, dict[SplitId, Cut]] = {}

    def used(time_ms: int) -> float:
        tried[time_ms] = board.index.candidates(time_ms, board.spans, blind)
        return board.used(tried[time_ms])

    floor_ms = min(span.head.event_time_ms for span in board.spans.values())
    if bound_ms is None:
        everything = {s: Cut(span.end, None) for s, span in board.spans.items()}
        if board.used(everything) <= 1:
            return None, everything
        bound_ms = 1 + max(floor_ms, *(t for t in board.latest(board.spans).values() if t is not None))
    used_at_bound = used(bound_ms)
    if used_at_bound <= 1 or bound_ms <= floor_ms + 1:
        return bound_ms, tried[bound_ms]
    time_ms = greatest_time_within(used, floor_ms, bound_ms, used_at_bound)
    if time_ms is None:
        time_ms = floor_ms + 1
    return time_ms, tried[time_ms]


def _cut_by_position(board: _Board, cuts: Mapping[SplitId, Cut]) -> dict[SplitId, Cut]:
    """Shrink a batch that does not fit although it cannot be cut by time (rule 3), to one row at least.

    A split cut so keeps the time of its head as the lower bound of what is next: the watermark waits.
    """
    backlog = {s: r.end - r.start for s, r in board.ranges(cuts).items()}

    def shrunk(rows: int) -> dict[SplitId, Cut]:
        shares = share(backlog, rows)
        return {
            s: cut
            if shares.get(s, 0) == backlog.get(s, 0)
            else Cut(board.starts[s] + shares[s], board.spans[s].head.event_time_ms, cut.exact)
            for s, cut in cuts.items()
        }

    fits, too_many = 1, sum(backlog.values())
    while too_many - fits > 1:
        rows = (fits + too_many) // 2
        if board.used(shrunk(rows)) <= 1:
            fits = rows
        else:
            too_many = rows
    return shrunk(fits)


def _cut_by_backlog(board: _Board) -> dict[SplitId, Cut]:
    """Share the budget by backlog, as Spark's own Kafka source does, whatever the event times."""
    ends = {s: Cut(span.end, None) for s, span in board.spans.items()}
    if board.used(ends) <= 1:
        return ends
    cuts = _cut_by_position(board, ends)
    if board.limits.out_of_orderness_ms is None:
        return cuts
    heads = board.index.heads({s: cut.position for s, cut in cuts.items() if cut.position < board.spans[s].end})
    return {
        s: Cut(cut.position, head.event_time_ms) if (head := heads.get(s)) is not None else cut
        for s, cut in cuts.items()
    }
