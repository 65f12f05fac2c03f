"""The plan of one micro-batch: which records of which splits, cut at one common event time.

``plan`` is the whole decision.  It is run anew at every trigger, holds no state, and returns what
others are to do; they look at nothing else.  The rules are numbered as in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from random import Random
from typing import NamedTuple

from tidegate.alignment.batch import Cuts, at_ends, at_starts, cut_at_one_time, cut_by_position, what_is_left
from tidegate.alignment.budget import UNLIMITED, Cost, split_rows
from tidegate.alignment.cuts import Cut, Cutter, Span
from tidegate.alignment.group import UNGROUPED, AlignmentGroup
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Plan, Progress, SplitPlan
from tidegate.alignment.splits import Extent, Extents, SplitId, SplitRange
from tidegate.alignment.states import STATES, SplitState
from tidegate.alignment.watermark import combine, split_watermark
from tidegate.errors import DataLossError, LateDataError

__all__ = ["plan"]

_MOST_FOR_FOLLOWING = 1 / 2  # of the budget, while others have records to align by


def plan(
    progress: Progress,
    extents: Extents,
    idle: Collection[SplitId],
    group: AlignmentGroup | None,
    index: TimeIndex,
    limits: Limits,
    *,
    added: Collection[SplitId] = (),
) -> Plan:
    """Decide one micro-batch.

    progress: as the last plan left it, with the starts of new splits among its positions.
    extents: of all splits there are now, taken before anything is asked of ``index``.
    idle: splits that have had nothing to read for the idle timeout; others in it are ignored.
    group: None: the source is in none.
    added: splits that were not there when the query began, and are new to this plan.

    Called at every trigger.  Raises DataLossError when records between a position and the data
    that is left are gone, or when a split ends before its position; LateDataError when a split is
    late and ``limits`` do not allow it.
    """
    board = _Board(progress, extents, index, limits, group, idle=idle, added=added)
    hold = board.hold() if limits.aligned else _Hold()
    time_ms, cuts = board.align(hold) if limits.aligned else (None, board.share())
    return board.conclude(cuts, time_ms, hold)


class _Hold(NamedTuple):
    """How far a batch may go, and because of whom."""

    low_ms: int | None = None
    bound_ms: int | None = None
    held_by: str | None = None
    group_bound_ms: int | None = None


class _Board:
    """The splits as one plan sees them: where each may be read from and to, and its head."""

    def __init__(
        self,
        before: Progress,
        extents: Extents,
        index: TimeIndex,
        limits: Limits,
        group: AlignmentGroup | None,
        *,
        idle: Collection[SplitId],
        added: Collection[SplitId],
    ) -> None:
        self.before, self.index, self.limits, self.group = before, index, limits, group
        if not all(extent.settled for extent in extents.values()):
            extents = {s: _not_before(before.positions[s], extent) for s, extent in extents.items()}
        self.extents = extents
        positions = before.positions
        self.starts = {
            s: at if extent.begin <= (at := positions[s]) <= extent.end else self._start(s, at, extent)
            for s, extent in extents.items()
        }
        self.ends = {s: extent.end for s, extent in extents.items()}
        stops = {s: stop for s, stop in limits.stops.items() if stop is not None and s in extents}
        self.ends.update({s: min(stop, extents[s].end) for s, stop in stops.items()})
        index.begin_plan(self.starts, extents)
        unread = {s: start for s, start in self.starts.items() if start < self.ends[s]}
        heads = index.heads(unread)
        self.spans = {
            s: Span(head, start, self.ends[s])
            for s, start in unread.items()
            if (head := heads[s]) is not None and head.position < self.ends[s]
        }
        watermark_ms = before.watermark_ms
        self.overdue = (
            set()
            if watermark_ms is None
            else {s for s, span in self.spans.items() if span.head.event_time_ms <= watermark_ms}
        )
        # Of one that stands at its begin no record was ever read: it counts as one that comes now.
        self.late = {
            s
            for s in self.overdue
            if s in before.late | before.idle | before.removed or s in added or self.starts[s] <= extents[s].begin
        }
        if self.late and limits.late_splits == "fail":
            raise self._late_data_error(min(self.late))
        self.catching_up = self.late if limits.late_splits == "catch-up" else set()
        self.admitted = self.late - self.catching_up
        # Positions without a record to align by up to the end: markers, holes, rows that are left out.
        self.hollow = {s: Cut(self.ends[s], None) for s in unread if s not in self.spans}
        at_end = self.starts.keys() - unread.keys()
        self.finished = {s for s in at_end if limits.stops.get(s) == self.ends[s] or extents[s].complete}
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

    def latest(self, splits: Collection[SplitId]) -> dict[SplitId, int]:
        """Return the greatest event time before the end of each split that holds a record."""
        found = self.index.latest(
            {s: Extent(self.extents[s].begin, self.ends[s]) for s in splits if self.extents[s].available}
        )
        return {s: latest_ms for s, latest_ms in found.items() if latest_ms is not None}

    def _late_data_error(self, split: SplitId) -> LateDataError:
        return LateDataError(
            f"split {split!r} was found with records of {self.spans[split].head.event_time_ms} ms, older than the "
            f"source's watermark of {self.before.watermark_ms} ms: they are late; set lateSplits to admit or catch-up"
        )

    def hold(self) -> _Hold:
        """Return what holds the splits, and the bound (rules 1 and 2)."""
        ignored = self.overdue - self.catching_up
        times = {s: span.head.event_time_ms for s, span in self.spans.items() if s not in ignored}
        drift_ms = self.limits.max_drift_ms
        if drift_ms is None:
            low_ms, held_by = _lowest(times)
            return _Hold(low_ms, self.limits.horizon_ms, held_by)
        # Nothing at or before the watermark can be saved from being late by waiting for it.
        watermark_ms = self.before.watermark_ms
        in_time_ms = None if watermark_ms is None else watermark_ms + 1
        if not self.limits.bounded:
            for split, latest_ms in self.latest(self.caught_up).items():
                times[split] = latest_ms if in_time_ms is None else max(latest_ms, in_time_ms)
        # What cannot be looked at may go on right behind the watermark.
        away_ms = in_time_ms
        if away_ms is None and self.before.bound_ms is not None:
            away_ms = self.before.bound_ms - drift_ms
        if away_ms is not None:
            times.update({s: away_ms for s in self.caught_up if not self.extents[s].available})
        low_ms, held_by = _lowest(times)
        # Splits that are overdue alone hold nobody, but must be read, and not beyond the drift either.
        held_ms = in_time_ms if low_ms is None else low_ms
        own_bound_ms = None if held_ms is None else held_ms + drift_ms
        if not self.catching_up:
            own_bound_ms = _greatest(self.before.bound_ms, own_bound_ms)
        others = UNGROUPED if self.group is None else self.group.bound(low_ms, self.before.bound_ms)
        bounds = [(own_bound_ms, held_by), (others.bound_ms, others.held_by), (self.limits.horizon_ms, held_by)]
        bound_ms, held_by = min(
            ((at_ms, by) for at_ms, by in bounds if at_ms is not None), key=lambda found: found[0], default=(None, None)
        )
        all_low_ms = min((t for t in (low_ms, others.low_ms) if t is not None), default=None)
        return _Hold(all_low_ms, bound_ms, held_by, others.bound_ms)

    def _past_all(self) -> int:
        """Return an event time after all that is unread: the bound where only the budget bounds."""
        return 1 + max([span.head.event_time_ms for span in self.spans.values()] + [*self.latest(self.spans).values()])

    def ranges(self, cuts: Mapping[SplitId, Cut]) -> dict[SplitId, SplitRange]:
        starts = self.starts
        return {s: SplitRange(s, starts[s], cut.position) for s, cut in cuts.items() if cut.position > starts[s]}

    def used(self, cuts: Cuts) -> float:
        """Return what share of the budget the cuts take; positions before a head may hold rows, too."""
        if self.limits.budget == UNLIMITED:
            return 0.0
        if self.limits.cost is split_rows:  # a search asks often and for all splits: without an object for each
            starts = self.starts
            return self.limits.budget.used(Cost(sum([cut.position - starts[s] for s, cut in cuts.items()])))
        return self.limits.budget.used(self.limits.cost(self.ranges(cuts)))

    def align(self, hold: _Hold) -> tuple[int | None, Cuts]:
        """Cut the splits at one event time, and beside them what follows it only; return the time and the cuts.

        Whoever has nothing to align by, and whoever comes late, moves nobody: neither the time nor a cut.
        """
        leading = {s: span for s, span in self.spans.items() if s not in self.admitted} or self.spans
        late = {s: span for s, span in self.spans.items() if s not in leading}
        room = self._room(leading, {**at_ends(late), **self.hollow})

        def used(cuts: Cuts) -> float:
            return self.used(cuts) / room

        time_ms, cuts = None, at_ends(leading)
        following = at_ends(late)
        if hold.bound_ms is not None or used(cuts) > 1:
            bound_ms = self._past_all() if hold.bound_ms is None else hold.bound_ms
            time_ms, cuts = cut_at_one_time(leading, Cutter(self.index, leading), bound_ms, used)
            following = Cutter(self.index, late).cut(time_ms)
        following = {**following, **self.hollow}
        beside = what_is_left(cuts, following, self.starts, self.spans, self.used)
        if self.ranges(cuts) and self.ranges(following) and not self.ranges(beside) and self._draws(leading, following):
            time_ms, cuts = min(span.head.event_time_ms for span in leading.values()), at_starts(leading)
            beside = what_is_left(cuts, following, self.starts, self.spans, self.used)
        return time_ms, {**cuts, **self._with_next_times(beside)}

    def _room(self, leading: Collection[SplitId], following: Cuts) -> float:
        """Return what share of the budget the common cut may take, so that those that follow it never starve."""
        fair = len(following) / max(len(leading) + len(following), 1)
        return 1 - min(self.used(following), fair, _MOST_FOR_FOLLOWING) if leading else 1

    def _draws(self, leading: Collection[SplitId], following: Collection[SplitId]) -> bool:
        """Tell by lot whether those that follow are read alone: the same lot as long as nothing is read.

        So it is where a position is too large for both, such as a chunk of a file.
        """
        lot = Random(sum(self.starts.values())).random()  # noqa: S311 - the same for the same positions
        return lot < len(following) / (len(leading) + len(following))

    def share(self) -> Cuts:
        """Share the budget by backlog, without a look at event times."""
        cuts = cut_by_position({**at_ends(self.spans), **self.hollow}, self.starts, self.spans, self.used)
        return self._with_next_times(cuts)

    def _with_next_times(self, cuts: Cuts) -> Cuts:
        """Return cuts that were made without looking at times, with what follows them for the watermark."""
        if self.limits.out_of_orderness_ms is None:
            return cuts
        inside = {s: cut.position for s, cut in cuts.items() if s in self.spans and cut.position < self.spans[s].end}
        heads = self.index.heads(inside)
        return {
            s: cut if (head := heads.get(s)) is None else Cut(cut.position, head.event_time_ms)
            for s, cut in cuts.items()
        }

    def conclude(self, cuts: Cuts, time_ms: int | None, hold: _Hold) -> Plan:
        """Turn cuts into ranges, new positions, states and the watermark."""
        ranges = self.ranges(cuts)
        late_rows = self._late_rows(cuts)
        splits = {
            s: self._describe(s, cuts.get(s), s in ranges, hold.bound_ms, late_rows.get(s, 0)) for s in self.extents
        }
        splits.update({s: SplitPlan(SplitState.REMOVED) for s in self.before.positions if s not in self.extents})
        positions = {s: cuts[s].position if s in cuts else start for s, start in self.starts.items()}
        stops = self.limits.stops
        # Retention may have passed a configured end.
        ended = bool(positions) and all(
            (stop := stops.get(s)) is not None and at >= stop for s, at in positions.items()
        )
        reads_records = any(s in ranges for s in self.spans)
        cut_ms = None if time_ms is None else _greatest(self.before.bound_ms, time_ms)
        reached = self._reached(splits)
        # What is complete holds nobody from the plan on that reads the last of it.
        outside = [state for state, rule in STATES.items() if not rule.in_minimum]
        holding = {
            s
            for s, said in splits.items()
            if said.state not in outside and not (self.extents[s].complete and positions[s] >= self.ends[s])
        }
        watermark_ms = _greatest(self.before.watermark_ms, self._watermark(splits, holding, reached, time_ms))
        # One that woke may have its new records behind the end of a bounded run, where its head is not seen.
        suspects = self.before.late | self.late | (self.before.idle - self.idle)
        late = {s for s in suspects if watermark_ms is not None and reached.get(s, inf) <= watermark_ms}
        late |= {s for s in self.before.late if s in self.extents and not self.extents[s].available}
        after = Progress(
            # A split that is gone goes on from where it stood should it come back.
            positions={**self.before.positions, **positions},
            bound_ms=cut_ms if reads_records else self.before.bound_ms,
            watermark_ms=watermark_ms,
            idle=frozenset(self.idle),
            late=frozenset(late),
            removed=frozenset(self.before.positions.keys() - positions.keys()),
            ended=ended,
        )
        next_low_ms = self._next_low(splits, holding, reached, after)
        return Plan(
            ranges,
            self.before if after == self.before else after,
            hold.low_ms,
            hold.held_by,
            hold.group_bound_ms,
            next_low_ms,
            splits,
        )

    def _late_rows(self, cuts: Cuts) -> dict[SplitId, int]:
        """Return for each split with a head that is overdue how many positions the batch reads before others."""
        if not self.overdue or self.before.watermark_ms is None:
            return {}
        spans = {s: self.spans[s] for s in self.overdue}
        in_time = Cutter(self.index, spans).cut(self.before.watermark_ms + 1)
        return {
            s: max(0, min(cuts[s].position, in_time[s].position) - span.head.position)
            for s, span in spans.items()
            if s in cuts
        }

    def _describe(self, split: SplitId, cut: Cut | None, read: bool, bound_ms: int | None, late_rows: int) -> SplitPlan:
        if cut is None or (split in self.hollow and not read):
            state = SplitState.CAUGHT_UP
            if split in self.finished:
                state = SplitState.FINISHED
            elif split in self.idle:
                state = SplitState.IDLE
            elif not self.extents[split].available:
                state = SplitState.UNREAD
            return SplitPlan(state)
        state = SplitState.READING
        if not read:
            held = bound_ms is not None and self.spans[split].head.event_time_ms >= bound_ms
            state = SplitState.PAUSED if held else SplitState.UNREAD
        return SplitPlan(state, cut.next_ms, split in self.late, late_rows, cut.exact)

    def _reached(self, splits: Mapping[SplitId, SplitPlan]) -> dict[SplitId, int]:
        """Return up to which event time each split has been read after the batch, its unread records in order."""
        if self.limits.out_of_orderness_ms is None and self.group is None:
            return {}
        reached = self.latest([s for s in self.extents if splits[s].next_ms is None])
        return reached | {s: said.next_ms for s, said in splits.items() if said.next_ms is not None}

    def _watermark(
        self,
        splits: Mapping[SplitId, SplitPlan],
        holding: Collection[SplitId],
        reached: Mapping[SplitId, int],
        time_ms: int | None,
    ) -> int | None:
        disorder_ms = self.limits.out_of_orderness_ms
        if disorder_ms is None:
            return None
        # A split without a record says nothing (Beam issue 20908: it must not pin the watermark),
        # unless its first records are there already and may only not be read yet.
        if any(s in holding and s not in reached and not extent.settled for s, extent in self.extents.items()):
            return None
        watermarks = {
            s: split_watermark(
                at_ms if time_ms is None or splits[s].next_ms is None else min(time_ms, at_ms), disorder_ms
            )
            for s, at_ms in reached.items()
        }
        # Whoever is late holds from where it is aligned, and moves nothing before (Flink: StatusWatermarkValve).
        before_ms = self.before.watermark_ms
        holders = watermarks.keys() & holding
        aligned = {s for s in holders if s not in self.admitted or before_ms is None or watermarks[s] >= before_ms}
        if holders and not aligned:
            return before_ms
        return combine([watermarks[s] for s in aligned], [watermarks[s] for s in watermarks.keys() - holders])

    def _next_low(
        self,
        splits: Mapping[SplitId, SplitPlan],
        holding: Collection[SplitId],
        reached: Mapping[SplitId, int],
        after: Progress,
    ) -> int | None:
        """Return what ``hold`` would find after this batch, if nothing came in between; only a group asks for it."""
        if self.group is None:
            return None
        in_time_ms = None if after.watermark_ms is None else after.watermark_ms + 1
        times = []
        if in_time_ms is not None and any(not self.extents[s].available for s in holding):
            times.append(in_time_ms)
        for split, at_ms in reached.items():
            if splits[split].next_ms is not None:
                if in_time_ms is None or at_ms >= in_time_ms or split in self.catching_up:
                    times.append(at_ms)
            elif split in holding and not self.limits.bounded:
                times.append(at_ms if in_time_ms is None else max(at_ms, in_time_ms))
        return min(times, default=None)


def _not_before(position: int, extent: Extent) -> Extent:
    """Return the extent, up to the position at least where what lies before it may only not be read now.

    So it is when a query goes on with another isolation level, under an open transaction.
    """
    return extent if extent.settled or extent.end >= position else replace(extent, end=position)


def _lowest(times: Mapping[SplitId, int]) -> tuple[int | None, SplitId | None]:
    split = min(times, key=times.__getitem__, default=None)
    return (None, None) if split is None else (times[split], split)


def _greatest(*times_ms: int | None) -> int | None:
    """Return the greatest of the times that there are."""
    return max((t for t in times_ms if t is not None), default=None)
