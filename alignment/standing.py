"""The splits before a plan: the readable part of each, its state, and the split that holds back the others.

This is the first step of a plan.  The source reports its ``low_ms`` to the alignment group, and gets a bound.
Rules are numbered as in ``docs/planning.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tidegate.alignment.cuts import Cut, Span
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Observed, Progress, SplitState
from tidegate.alignment.splits import Extent, Extents, Head, Positions, SplitId, SplitRange
from tidegate.errors import DataLossError, LateDataError


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a source before a batch.

    extents: those that were observed, as far as they may be read.
    starts: the position from which each split is read.
    ends: the position up to which each split may be read; exclusive.
    spans: the unread part of every split that holds a record to align by.
    hollow: the ends of the splits with unread positions but no record to align by: markers, holes, ignored rows.
    states: the state of every split if the batch read nothing and had no bound.
    beyond: the heads of the splits at their targets: records that a bounded run leaves to the next one.
    overdue: the splits with a head that is not after the source's watermark.
    late: the overdue splits that came, or woke, with such a head, and have not caught up.
    catching_up: the late splits that the others wait for.
    held: the splits that wait for the clock, since their heads are in the future; they hold back no others (rule 2).
    low_ms: the lowest event time that holds the bound; None: nothing does, or the batch is not aligned.
    held_by: the split whose head has that time.
    """

    observed: Observed
    extents: Extents
    starts: Positions
    ends: Positions
    spans: Mapping[SplitId, Span]
    hollow: Mapping[SplitId, Cut]
    states: Mapping[SplitId, SplitState]
    beyond: Mapping[SplitId, Head] = field(default_factory=dict)
    overdue: frozenset[SplitId] = frozenset()
    late: frozenset[SplitId] = frozenset()
    catching_up: frozenset[SplitId] = frozenset()
    held: frozenset[SplitId] = frozenset()
    low_ms: int | None = None
    held_by: SplitId | None = None

    @property
    def before(self) -> Progress:
        """The progress after the last plan, with the starts of new splits among its positions."""
        return self.observed.progress

    @property
    def heads_ms(self) -> dict[SplitId, int]:
        """The event time of the next record of each split that has one, even if this run does not read it."""
        heads_ms = {s: span.head.event_time_ms for s, span in self.spans.items()}
        return {**heads_ms, **{s: head.event_time_ms for s, head in self.beyond.items()}} if self.beyond else heads_ms

    @property
    def group_low_ms(self) -> int | None:
        """The lowest event time in this source for its group; behind late records, the next may be in time."""
        return self.before.in_time_ms if self.low_ms is None and self.overdue - self.held else self.low_ms

    @property
    def admitted(self) -> frozenset[SplitId]:
        """The late splits that do not hold back others."""
        return self.late - self.catching_up

    def ranges(self, cuts: Mapping[SplitId, Cut]) -> dict[SplitId, SplitRange]:
        """Return the range of each split up to its cut; empty ranges are left out."""
        starts = self.starts
        return {s: SplitRange(s, starts[s], cut.position) for s, cut in cuts.items() if cut.position > starts[s]}

    def latest(
        self, index: TimeIndex, splits: Collection[SplitId], ends: Positions | None = None
    ) -> dict[SplitId, int]:
        """Return the greatest event time before the end, or another end, of each split that holds a record."""
        ends = self.ends if ends is None else ends
        extents = {
            s: extent if extent.end == ends[s] else replace(extent, end=ends[s])
            for s in splits
            if (extent := self.extents[s]).available
        }
        return {s: latest_ms for s, latest_ms in index.latest(extents).items() if latest_ms is not None}


def find_standing(observed: Observed, index: TimeIndex, limits: Limits) -> Standing:
    """Return the standing of the splits, and the low of this source.

    Raises DataLossError when records were deleted before they were read, or when a split ends before its position.
    Raises LateDataError when a split is late and ``limits`` do not allow it.
    """
    progress, idle = observed.progress, observed.idle
    extents = _readable(progress.positions, observed.extents)
    starts = _starts(progress.positions, extents, limits)
    ends = ends_of(extents, limits.stops)
    index.recall(observed.hollow, progress.positions)
    index.begin_plan(starts, extents, limits.horizon_ms)
    unread = {s: start for s, start in starts.items() if start < ends[s]}
    heads = index.heads(unread)
    spans = {
        s: Span(head, start, ends[s])
        for s, start in unread.items()
        if (head := heads[s]) is not None and head.position < ends[s]
    }
    hollow = {s: Cut(ends[s], None) for s in unread if s not in spans}
    states = dict.fromkeys(extents, SplitState.UNREAD)
    states.update(dict.fromkeys(hollow, SplitState.CAUGHT_UP))
    if len(unread) < len(extents):
        quiet = {s for s in idle if s in extents and progress.positions[s] >= ends[s]}
        at_end = [s for s in extents if s not in unread]
        states.update(
            {s: _at_end(extents[s], is_stop=ends[s] == limits.stops.get(s), is_quiet=s in quiet) for s in at_end}
        )
    states.update(dict.fromkeys(progress.positions.keys() - extents.keys(), SplitState.REMOVED))
    # Rule 4: the next record of a split counts, whichever run reads it.
    at_targets = {s: ends[s] for s, extent in extents.items() if extent.more and states[s] is SplitState.CAUGHT_UP}
    beyond = _before_stops(index.heads(at_targets), limits) if at_targets else {}
    standing = Standing(observed, extents, starts, ends, spans, hollow, states, beyond)
    held = frozenset(s for s, head_ms in standing.heads_ms.items() if limits.holds(head_ms))
    standing = _with_late(replace(standing, held=held), limits)
    return _with_low(standing, index, limits) if limits.aligned else standing


def _readable(positions: Positions, extents: Extents) -> Extents:
    """Return the extents, extended to the positions where records before them exist but may not be read now.

    That happens when a query resumes with another isolation level during an open transaction (rule 7).
    """
    if all(extent.settled for extent in extents.values()):
        return extents
    return {
        s: extent if extent.settled or extent.end >= positions[s] else replace(extent, end=positions[s])
        for s, extent in extents.items()
    }


def _starts(positions: Positions, extents: Extents, limits: Limits) -> dict[SplitId, int]:
    return {
        s: at if extent.begin <= (at := positions[s]) <= extent.end else _start_after_loss(s, at, extent, limits)
        for s, extent in extents.items()
    }


def _start_after_loss(split: SplitId, position: int, extent: Extent, limits: Limits) -> int:
    # Rule 7: no known cause lets an end go back.
    if extent.end < position:
        raise DataLossError(
            f"split {split!r} ends at position {extent.end}, before position {position}, up to which it has been "
            "read: it was truncated or recreated; start with a new checkpoint to read it from its beginning"
        )
    stop = limits.stops.get(split)
    if stop is not None and stop <= position:
        return position
    # Rule 7: records before the log's start are gone.
    if position < extent.begin and limits.fail_on_data_loss:
        raise DataLossError(
            f"positions {position} to {extent.begin - 1} of split {split!r} are gone, deleted before they were "
            "read; set failOnDataLoss to false to continue without them"
        )
    return max(position, extent.begin)


def ends_of(extents: Extents, stops: Mapping[SplitId, int | None]) -> dict[SplitId, int]:
    """Return the ends of extents, or the configured ends if these come first."""
    ends = {s: extent.end for s, extent in extents.items()}
    ends.update({s: min(stop, ends[s]) for s, stop in stops.items() if stop is not None and s in ends})
    return ends


def _before_stops(heads: Mapping[SplitId, Head | None], limits: Limits) -> dict[SplitId, Head]:
    stops = limits.stops
    found = ((s, head) for s, head in heads.items() if head is not None)
    return {s: head for s, head in found if (stop := stops.get(s)) is None or head.position < stop}


def _at_end(extent: Extent, *, is_stop: bool, is_quiet: bool) -> SplitState:
    """Return the state of a split that has been read to its end."""
    if is_stop or extent.complete:
        return SplitState.FINISHED
    # Rule 7: records already wait behind an open transaction.
    if is_quiet and extent.settled:
        return SplitState.IDLE
    # Rule 7: an unavailable split may have records to read.
    return SplitState.CAUGHT_UP if extent.available else SplitState.UNREAD


def _with_late(standing: Standing, limits: Limits) -> Standing:
    """Return the standing with the splits that are late (rule 1)."""
    before, watermark_ms = standing.before, standing.before.watermark_ms
    if watermark_ms is None:
        return standing
    heads_ms = standing.heads_ms
    overdue = frozenset(s for s, head_ms in heads_ms.items() if head_ms <= watermark_ms)
    known = before.late | before.idle | before.removed | frozenset(standing.observed.starts)
    # A split at its begin was never read: it counts as a split that comes now.
    late = frozenset(s for s in overdue if s in known or standing.starts[s] <= standing.extents[s].begin)
    if late and limits.late_splits == "fail":
        split = min(late)
        raise LateDataError(
            f"split {split!r} was found with records of {heads_ms[split]} ms, older than the "
            f"source's watermark of {watermark_ms} ms: they are late; set lateSplits to admit or catch-up"
        )
    catching_up = late if limits.late_splits == "catch-up" else frozenset()
    return replace(standing, overdue=overdue, late=late, catching_up=catching_up)


def _with_low(standing: Standing, index: TimeIndex, limits: Limits) -> Standing:
    """Return the standing with its low (rule 1)."""
    waiting = [s for s, state in standing.states.items() if state is SplitState.CAUGHT_UP and s not in standing.beyond]
    latest_ms = {} if limits.max_drift_ms is None else standing.latest(index, waiting)
    away = [s for s, extent in standing.extents.items() if not extent.available]
    away = [s for s in away if standing.states[s] is SplitState.UNREAD]
    times = find_lows(
        standing.before,
        heads_ms=standing.heads_ms,
        latest_ms=latest_ms,
        away=away,
        late=standing.late,
        limits=limits,
    )
    if not times:
        return standing
    slowest = min(times, key=times.__getitem__)
    return replace(standing, low_ms=times[slowest], held_by=slowest)


def find_lows(
    progress: Progress,
    *,
    heads_ms: Mapping[SplitId, int],
    latest_ms: Mapping[SplitId, int],
    away: Collection[SplitId],
    late: Collection[SplitId],
    limits: Limits,
) -> dict[SplitId, int]:
    """Return the event time from which on each split holds back the others; the least of them is low (rule 1).

    It may still have rows from then on.  A split without such a time holds back nothing.

    progress: its watermark and bound.
    heads_ms: of the next record of each split that has one.
    latest_ms: the greatest event time of each split that has caught up, and is not idle.
    away: the splits that cannot be reached, and are not idle.
    late: the splits that came, or woke, behind the watermark, and have not caught up with it.
    """
    in_time_ms, drift_ms = progress.in_time_ms, limits.max_drift_ms
    waits_for_late = limits.late_splits == "catch-up"
    lows: dict[SplitId, int] = {}
    for split, head_ms in heads_ms.items():
        if limits.holds(head_ms):
            continue
        if split not in late:
            # Behind a record that breaks the out-of-orderness, the next ones are in time.
            lows[split] = head_ms if in_time_ms is None or head_ms > in_time_ms else in_time_ms
        elif waits_for_late:
            lows[split] = head_ms
    if drift_ms is None:
        return lows
    lows.update({s: at_ms if in_time_ms is None else max(at_ms, in_time_ms) for s, at_ms in latest_ms.items()})
    # Rule 7: a split that cannot be reached may resume right behind the watermark, or where the last bound began.
    away_ms = in_time_ms
    if away_ms is None and progress.bound_ms is not None:
        away_ms = progress.bound_ms - drift_ms
    if away_ms is not None:
        lows.update(dict.fromkeys(away, away_ms))
    return lows
