"""The bound of a batch, and its outcome: new positions, the states of the splits, and the source's watermark.

Nothing is read at or past the bound.  A watermark ``w`` promises that no record with event time <= ``w`` will come,
except for records that break the declared out-of-orderness (Flink: BoundedOutOfOrdernessWatermarks).

Rules are numbered as in ``docs/planning.md``.  ``holders`` says which states hold back other splits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import NamedTuple

from tidegate.alignment.cuts import Cuts, Cutter
from tidegate.alignment.generators import SplitWatermark
from tidegate.alignment.group import GroupBound
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Plan, Progress, SplitPlan, SplitState, holders
from tidegate.alignment.splits import Extent, Positions, SplitId, SplitRange
from tidegate.alignment.standing import Standing, find_lows

_GONE = (SplitState.FINISHED, SplitState.REMOVED)


def split_watermark(reached_ms: int, out_of_orderness_ms: int) -> int:
    """Return the watermark of a split without an unread record in order before this event time."""
    return reached_ms - out_of_orderness_ms - 1


def combine(holding: Collection[int], released: Collection[int]) -> int | None:
    """Return the source's watermark from those of its splits; None when no split has one.

    It is the minimum over the splits that hold it back.  When none does (all are idle), it is the maximum over the
    others, in whatever order they went idle (FLINK-38454).
    """
    return min(holding) if holding else max(released, default=None)


def advanced(before_ms: int | None, now_ms: int | None) -> int | None:
    """Return a time that never goes back, such as a watermark, from its last and its new value."""
    return max((at_ms for at_ms in (before_ms, now_ms) if at_ms is not None), default=None)


def multiplexed(before_ms: int | None, active: Collection[int | None], others: Collection[int | None]) -> int | None:
    """Return the watermark of a source from generators of its splits (Flink: WatermarkOutputMultiplexer).

    None: no such time is known yet.

    before_ms: the last one.  It never goes back, whatever a split that wakes or begins says.
    active: the watermarks of the splits that hold it back: it is their minimum.  None: a split has none yet.
    others: the watermarks of the other splits, idle or gone.  The greatest counts if no split is active.
    """
    if None in active:
        return before_ms
    least = combine([w for w in active if w is not None], [w for w in others if w is not None])
    return advanced(before_ms, least)


def holding_generators(
    generated: Mapping[SplitId, SplitWatermark], states: Mapping[SplitId, SplitState]
) -> dict[SplitId, bool]:
    """Return for each split that is there and has a generator whether it holds back the source's watermark.

    states: of all splits before the batch.
    """
    there = {s: state for s in generated if (state := states.get(s, SplitState.REMOVED)) not in _GONE}
    return {s: state is not SplitState.IDLE and not generated[s].is_idle for s, state in there.items()}


def generated_watermark(
    before_ms: int | None, generated: Mapping[SplitId, SplitWatermark], holding: Mapping[SplitId, bool]
) -> int | None:
    """Return the source's watermark from those of its splits, and from the last one; None: there is none yet."""
    active = [split.watermark_ms for s, split in generated.items() if holding.get(s, False)]
    return multiplexed(
        before_ms, active, [split.watermark_ms for s, split in generated.items() if not holding.get(s, False)]
    )


class Bound(NamedTuple):
    """The limit of a batch, and what sets it.

    low_ms: the lowest event time that holds back the bound, in this source and its group.
    bound_ms: exclusive; None: only the budget limits the batch.
    held_by: the split, or the other member of the group, that sets it.
    """

    low_ms: int | None = None
    bound_ms: int | None = None
    held_by: SplitId | None = None


def find_bound(standing: Standing, group_bound: GroupBound | None, limits: Limits) -> Bound:
    """Return the least bound of the max drift, the group and the horizon."""
    others = group_bound or GroupBound()
    bounds = [
        (_own_bound_ms(standing, limits), standing.held_by),
        (others.bound_ms, others.held_by),
        (limits.held_from_ms, standing.held_by),
    ]
    set_ms = [(at_ms, by) for at_ms, by in bounds if at_ms is not None]
    bound_ms, held_by = min(set_ms, key=lambda limit: limit[0], default=(None, standing.held_by))
    lows = [low_ms for low_ms in (standing.low_ms, others.low_ms) if low_ms is not None]
    return Bound(min(lows, default=None), bound_ms, held_by)


def _own_bound_ms(standing: Standing, limits: Limits) -> int | None:
    if limits.max_drift_ms is None:
        return None
    # Overdue splits hold back no other split, but must be read, within the drift.
    held_ms = standing.before.in_time_ms if standing.low_ms is None else standing.low_ms
    bound_ms = None if held_ms is None else held_ms + limits.max_drift_ms
    # Rule 2: the bound never falls, except through a split that catches up.
    return bound_ms if standing.catching_up else advanced(standing.before.bound_ms, bound_ms)


def find_outcome(
    standing: Standing,
    cuts: Cuts,
    cut_ms: int | None,
    bound: Bound,
    index: TimeIndex,
    limits: Limits,
    *,
    group_bound: GroupBound | None,
) -> Plan:
    """Return the plan of a batch.

    cut_ms: the event time of the cuts; None: the splits were cut by position.
    group_bound: that of the source's group, which wants the low after the batch.
    """
    before, in_group = standing.before, group_bound is not None
    ranges = standing.ranges(cuts)
    positions = {s: cuts[s].position if s in cuts else start for s, start in standing.starts.items()}
    states = _states(standing, ranges, bound)
    splits = _described(standing, states, cuts, _late_rows(standing, cuts, index))
    holding = _holding(standing, states, positions)
    reached = _reached(standing, splits, index) if in_group or limits.wants_watermark else {}
    # Rule 2: a split that waits for the clock holds back no others.
    states_before = {**standing.states, **dict.fromkeys(standing.held, SplitState.IDLE)}
    generated = standing.observed.generated or {}
    generators = holding_generators(generated, states_before)
    if limits.generated:
        now_ms = generated_watermark(before.watermark_ms, generated, generators)
    elif limits.by_completeness:
        now_ms = _complete_and_read(standing, splits, cut_ms)
    else:
        held = _held(splits, reached, limits)
        counted = reached
        if held:
            counted = {s: reached[s] for s in reached.keys() - held} | standing.latest(index, held, positions)
        now_ms = _watermark(standing, splits, holding - held, counted, cut_ms, limits.out_of_orderness_ms)
        now_ms = _before_held(now_ms, [reached[s] for s in held - standing.admitted], limits.out_of_orderness_ms)
    watermark_ms = advanced(before.watermark_ms, now_ms)
    cut_bound_ms = None if cut_ms is None else advanced(before.bound_ms, cut_ms)
    reads_records = any(s in ranges for s in standing.spans)
    after = Progress(
        # A removed split keeps its position, and continues from there if it comes back.
        positions={**before.positions, **positions},
        bound_ms=cut_bound_ms if reads_records else before.bound_ms,
        watermark_ms=watermark_ms,
        idle=frozenset(s for s, state in states.items() if state is SplitState.IDLE),
        late=_late(standing, states, splits, reached, watermark_ms),
        removed=frozenset(before.positions.keys() - positions.keys()),
        ended=_are_at_stops(positions, limits),
    )
    next_low_ms = _next_low(standing, splits, holding, reached, after, limits) if in_group else None
    # Rule 8: a batch that reads nothing and changes nothing leaves its start unchanged.
    progress = before if after == before else after
    group_bound_ms = None if group_bound is None else group_bound.bound_ms
    heads = ((span.head, ranges.get(split)) for split, span in standing.spans.items())
    oldest_ms = min((head.event_time_ms for head, read in heads if read and head.position < read.end), default=None)
    return Plan(
        ranges,
        standing.ends,
        progress,
        bound.low_ms,
        bound.held_by,
        group_bound_ms,
        next_low_ms,
        splits,
        oldest_ms,
        generators,
    )


def _states(standing: Standing, ranges: Mapping[SplitId, SplitRange], bound: Bound) -> dict[SplitId, SplitState]:
    paused: set[SplitId] = set()
    if bound.bound_ms is not None:
        spans, bound_ms = standing.spans, bound.bound_ms
        paused = {s for s, span in spans.items() if span.head.event_time_ms >= bound_ms and s not in ranges}
    return {
        **standing.states,
        **dict.fromkeys(ranges, SplitState.READING),
        **dict.fromkeys(paused, SplitState.PAUSED),
    }


def _described(
    standing: Standing, states: Mapping[SplitId, SplitState], cuts: Cuts, late_rows: Mapping[SplitId, int]
) -> dict[SplitId, SplitPlan]:
    late = standing.late
    described = {
        s: SplitPlan(state)
        if (cut := cuts.get(s)) is None
        else SplitPlan(state, cut.next_ms, s in late, late_rows.get(s, 0), cut.exact)
        for s, state in states.items()
    }
    described.update({s: SplitPlan(states[s], head.event_time_ms, s in late) for s, head in standing.beyond.items()})
    return described


def _late_rows(standing: Standing, cuts: Cuts, index: TimeIndex) -> dict[SplitId, int]:
    """Return the number of positions of each overdue split in the batch before its first record in time."""
    if not standing.overdue or standing.before.in_time_ms is None:
        return {}
    spans = {s: span for s, span in standing.spans.items() if s in standing.overdue}
    in_time = Cutter(index, spans).cut(standing.before.in_time_ms)
    return {s: max(0, min(cuts[s].position, in_time[s].position) - span.head.position) for s, span in spans.items()}


def _reached(standing: Standing, splits: Mapping[SplitId, SplitPlan], index: TimeIndex) -> dict[SplitId, int]:
    """Return the event time that each split has reached after the batch, its unread records in order (rule 5)."""
    reached = standing.latest(index, [s for s in standing.extents if splits[s].next_ms is None])
    return reached | {s: split.next_ms for s, split in splits.items() if split.next_ms is not None}


def _holding(standing: Standing, states: Mapping[SplitId, SplitState], positions: Positions) -> set[SplitId]:
    """Return the splits that count for the minimum after the batch."""
    extents, ends = standing.extents, standing.ends
    # A complete split becomes finished with the batch that reads its last record.
    read_out = [s for s, extent in extents.items() if extent.complete and positions[s] >= ends[s]]
    return holders({**states, **dict.fromkeys(read_out, SplitState.FINISHED)})


def _held(splits: Mapping[SplitId, SplitPlan], reached: Mapping[SplitId, int], limits: Limits) -> set[SplitId]:
    """Return the splits that wait for the clock (rule 2); for the watermark they end at their positions."""
    if limits.held_from_ms is None:
        return set()
    return {s for s, at_ms in reached.items() if splits[s].next_ms is not None and limits.holds(at_ms)}


def _before_held(watermark_ms: int | None, held_ms: Collection[int], disorder_ms: int | None) -> int | None:
    """Return a watermark that does not pass records that wait for the clock, since a clock may go back."""
    if watermark_ms is None or disorder_ms is None:
        return watermark_ms
    return min([watermark_ms, *(split_watermark(at_ms, disorder_ms) for at_ms in held_ms)])


def _late(
    standing: Standing,
    states: Mapping[SplitId, SplitState],
    splits: Mapping[SplitId, SplitPlan],
    reached: Mapping[SplitId, int],
    watermark_ms: int | None,
) -> frozenset[SplitId]:
    """Return the splits that have not caught up with the watermark (rule 1)."""
    before = standing.before
    woken = {s for s in before.idle if states.get(s) is not SplitState.IDLE}
    suspects = before.late | standing.late | woken
    late = {s for s in suspects if watermark_ms is not None and reached.get(s, inf) <= watermark_ms}
    late = {s for s in late if splits[s].next_ms is not None or not _is_over(standing.extents[s], standing.ends[s])}
    # Rules 4 and 7: the next record is unknown of a split that reaches its target now, or is unavailable.
    known = (before.late | standing.late) & standing.extents.keys()
    unknown = {s for s in known if splits[s].next_ms is None and _hides_next(standing.extents[s])}
    return frozenset(late | unknown)


def _is_over(extent: Extent, end: int) -> bool:
    """Return whether a split has nothing after its end; a configured end may be moved by a later run."""
    return extent.complete and end >= extent.end


def _hides_next(extent: Extent) -> bool:
    return extent.more or not extent.available


def _are_at_stops(positions: Positions, limits: Limits) -> bool:
    # Retention may have passed a configured end.
    stops = limits.stops
    return bool(positions) and all((stop := stops.get(s)) is not None and at >= stop for s, at in positions.items())


def _watermark(
    standing: Standing,
    splits: Mapping[SplitId, SplitPlan],
    holding: Collection[SplitId],
    reached: Mapping[SplitId, int],
    cut_ms: int | None,
    disorder_ms: int | None,
) -> int | None:
    """Return the source's watermark from its splits.  It may be less than the last one."""
    if disorder_ms is None:
        return None
    # A split without a record does not count: it must not pin the watermark (Beam issue 20908).  It does if its first
    # records exist but may not be read yet (rule 7).
    if any(s in holding and s not in reached and not extent.settled for s, extent in standing.extents.items()):
        return None
    watermarks = {
        s: split_watermark(at_ms if cut_ms is None or splits[s].next_ms is None else min(cut_ms, at_ms), disorder_ms)
        for s, at_ms in reached.items()
    }
    # Rule 1: a late split holds once it is aligned, and moves nothing before (Flink: StatusWatermarkValve).  Its own
    # next record decides, because the common cut may be before it.
    before_ms, admitted = standing.before.watermark_ms, standing.admitted
    holders_ms = watermarks.keys() & holding
    aligned = {
        s
        for s in holders_ms
        if s not in admitted or before_ms is None or split_watermark(reached[s], disorder_ms) >= before_ms
    }
    if holders_ms and not aligned:
        return before_ms
    return combine([watermarks[s] for s in aligned], [watermarks[s] for s in watermarks.keys() - holders_ms])


def _complete_and_read(standing: Standing, splits: Mapping[SplitId, SplitPlan], cut_ms: int | None) -> int | None:
    """Return the event time up to which the source is complete, and read by the batch.

    Late splits also hold it back: their first records are late, but later records may not be.
    """
    complete_ms = standing.observed.complete_ms
    if complete_ms is None:
        return None
    unread = [split.next_ms for split in splits.values() if split.next_ms is not None]
    if unread and cut_ms is not None:
        unread.append(cut_ms)  # rule 5
    return min(complete_ms, min(unread, default=complete_ms + 1) - 1)


def _next_low(
    standing: Standing,
    splits: Mapping[SplitId, SplitPlan],
    holding: Collection[SplitId],
    reached: Mapping[SplitId, int],
    after: Progress,
    limits: Limits,
) -> int | None:
    """Return what the group learns of the next standing, if no records come in between.

    A split that is cut by position counts with its old head.
    """
    heads_ms = {s: at_ms for s, split in splits.items() if (at_ms := split.next_ms) is not None}
    latest_ms = {s: at_ms for s, at_ms in reached.items() if s in holding and s not in heads_ms}
    away = [s for s in holding if not standing.extents[s].available]
    lows = find_lows(after, heads_ms=heads_ms, latest_ms=latest_ms, away=away, late=after.late, limits=limits)
    # Behind late records, the next may be in time.
    is_behind = any(s not in heads_ms or not limits.holds(heads_ms[s]) for s in after.late)
    return min(lows.values(), default=after.in_time_ms if is_behind else None)
