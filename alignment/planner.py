"""The plan of one micro-batch: the range of each split, cut at one common event time.

Three steps: ``find_standing`` finds the standing of the splits, and the low of this source; its group takes that low
and sets a bound; the rest cuts the splits and finds the outcome.  All of it runs at every trigger, keeps no state and
has no effects: it asks only the time index, and the group.  The rules are numbered as in ``docs/planning.md``.

A batch reads everything, everything before one event time, shares by backlog, or what a common cut leaves (rule 3).
There ``used`` returns the share of the budget that cuts take; more than 1 is too much.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TypeAlias

from tidegate.alignment.budget import UNLIMITED, Cost, greatest_within, share, split_rows
from tidegate.alignment.cuts import Cut, Cuts, Cutter, Span
from tidegate.alignment.group import GroupBound
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.outcome import Bound, find_bound, find_outcome
from tidegate.alignment.plan import Limits, Observed, Plan
from tidegate.alignment.splits import Positions, SplitId
from tidegate.alignment.standing import Standing, find_standing

Spans: TypeAlias = Mapping[SplitId, Span]
Used: TypeAlias = Callable[[Cuts], float]


def at_ends(spans: Spans) -> Cuts:
    """Read everything."""
    return {s: Cut(span.end, None) for s, span in spans.items()}


def at_starts(spans: Spans) -> Cuts:
    """Read nothing."""
    return {s: Cut(span.start, span.head.event_time_ms) for s, span in spans.items()}


def cut_at_one_time(spans: Spans, cutter: Cutter, bound_ms: int, used: Used) -> tuple[int, Cuts]:
    """Cut all spans at the bound or, if the budget is smaller, at the greatest time that fits.

    Returns the time and the cuts.  If no time fits, the earliest is used, and the cuts are shrunk.
    """
    while True:
        time_ms, cuts, fits = _greatest_time(spans, cutter, bound_ms, used)
        cuts = cutter.sharpened(time_ms, cuts)
        if cutter.confirm(time_ms, cuts):
            starts = {split: span.start for split, span in spans.items()}
            return time_ms, cuts if fits else cut_by_position(cuts, starts, spans, used)


def _greatest_time(spans: Spans, cutter: Cutter, bound_ms: int, used: Used) -> tuple[int, Cuts, bool]:
    """Return the greatest time up to the bound that fits the budget, its cuts, and True.

    If none fits: the earliest time that reads anything, its cuts, and False.
    """
    low_ms = min((span.head.event_time_ms for span in spans.values()), default=bound_ms)
    tried: dict[int, Cuts] = {low_ms: {}}

    def used_at(time_ms: int) -> float:
        tried[time_ms] = cutter.candidates(time_ms)
        return used(tried[time_ms])

    def sample(from_ms: int, to_ms: int, share: float) -> int:
        time_ms = cutter.sample(tried[from_ms], tried[to_ms], share)
        return (from_ms + to_ms) // 2 if time_ms is None else time_ms

    used_at_bound = used_at(bound_ms)
    if used_at_bound <= 1:
        return bound_ms, tried[bound_ms], True
    time_ms = greatest_within(used_at, low_ms, bound_ms, used_at_bound, sample)
    if time_ms is not None:
        return time_ms, tried[time_ms], True
    # Rule 3: when nothing fits, the slowest splits are also cut by position.
    return low_ms + 1, tried[low_ms + 1], False


def cut_by_position(cuts: Cuts, starts: Positions, spans: Spans, used: Used, *, least: int = 1) -> Cuts:
    """Shrink a batch by backlog until it fits, ignoring event times; keep at least ``least`` positions.

    Spark's own Kafka source does the same.  The time of a split's head, if it has one, stays the lower bound for its
    next record: the watermark waits for it.
    """
    used_by_all = used(cuts)
    if used_by_all <= 1:
        return cuts
    most = sum(_backlog(cuts, starts).values())
    rows = greatest_within(lambda rows: used(_shrunk(cuts, starts, spans, rows)), 0, most, used_by_all, enough=1)
    return _shrunk(cuts, starts, spans, rows or least)


def what_is_left(cuts: Cuts, others: Cuts, starts: Positions, spans: Spans, used: Used) -> Cuts:
    """Shrink ``others`` to the budget that a batch leaves; to nothing if the batch takes the whole budget."""
    taken = used(cuts)
    if taken >= 1:
        return _shrunk(others, starts, spans, 0)
    reads = any(cut.position > starts[s] for s, cut in cuts.items())

    def share_of_what_is_left(left_cuts: Cuts) -> float:
        return (used({**cuts, **left_cuts}) - taken) / (1 - taken)

    return cut_by_position(others, starts, spans, share_of_what_is_left, least=0 if reads else 1)


def _backlog(cuts: Cuts, starts: Positions) -> dict[SplitId, int]:
    return {s: count for s, cut in cuts.items() if (count := cut.position - starts[s]) > 0}


def _shrunk(cuts: Cuts, starts: Positions, spans: Spans, rows: int) -> Cuts:
    """Shrink cuts by backlog to a total number of positions."""
    backlog, shrunk = _backlog(cuts, starts), dict(cuts)
    for split, count in share(backlog, rows).items():
        if count < backlog[split]:
            next_ms = spans[split].head.event_time_ms if split in spans else None
            shrunk[split] = Cut(starts[split] + count, next_ms, cuts[split].exact)
    return shrunk


_MOST_FOR_FOLLOWING = 1 / 2  # of the budget, while others have records to align by


def plan(
    observed: Observed,
    limits: Limits,
    index: TimeIndex,
    group: Callable[[Standing], GroupBound | None] | None = None,
) -> Plan:
    """Decide one micro-batch.

    group: takes the standing, and returns the bound that the other members of the group set for this source.  Without
        alignment there is no bound.

    Called at every trigger.  Raises the errors of ``find_standing``.
    """
    standing = find_standing(observed, index, limits)
    group_bound = None if group is None else group(standing)
    bound, cut_ms = Bound(), None
    if limits.aligned:
        bound = find_bound(standing, group_bound, limits)
        cut_ms, cuts = _Batch(standing, index, limits).align(bound.bound_ms)
        if limits.held_from_ms is not None:
            cuts = {**cuts, **_before_held(standing, cuts, index)}
    else:
        cuts = _Batch(standing, index, limits).share()
    return find_outcome(standing, cuts, cut_ms, bound, index, limits, group_bound=group_bound)


def _before_held(standing: Standing, cuts: Cuts, index: TimeIndex) -> Cuts:
    """Return cuts before records in the future (rule 2), for splits that were probed: peeks may step over such records.

    An index answers with the first record at or after a time, so before an exact cut there is none.
    """
    probed = standing.ranges({s: cut for s, cut in cuts.items() if not cut.exact})
    held = index.held(probed.values())
    return {s: Cut(head.position, head.event_time_ms, exact=False) for s, head in held.items()}


class _Batch:
    """The cuts of one batch, within its budget (rule 3)."""

    def __init__(self, standing: Standing, index: TimeIndex, limits: Limits) -> None:
        self._standing, self._index, self._limits = standing, index, limits
        self._spans, self._starts = standing.spans, standing.starts

    def align(self, bound_ms: int | None) -> tuple[int | None, Cuts]:
        """Cut the splits at one event time, then those that follow it; return the time and the cuts.

        A split without a record to align by (rule 3), or a late split (rule 1), changes neither the time nor another
        cut.
        """
        admitted, hollow = self._standing.admitted, self._standing.hollow
        leading = {s: span for s, span in self._spans.items() if s not in admitted} or self._spans
        late = {s: span for s, span in self._spans.items() if s not in leading}
        room = self._room(leading, {**at_ends(late), **hollow})

        def used(cuts: Cuts) -> float:
            return self._used(cuts) / room

        time_ms, cuts, following = None, at_ends(leading) if bound_ms is None else {}, at_ends(late)
        if bound_ms is None and used(cuts) > 1:
            bound_ms = self._past_all()
        if bound_ms is not None:
            time_ms, cuts = cut_at_one_time(leading, Cutter(self._index, leading), bound_ms, used)
            following = Cutter(self._index, late).cut(time_ms)
        following = {**following, **hollow}
        beside = what_is_left(cuts, following, self._starts, self._spans, self._used)
        # Rule 1: if one position is too large for both, they take turns by lot.
        if self._reads(cuts) and self._reads(following) and not self._reads(beside) and self._draws(leading, following):
            time_ms, cuts = min(span.head.event_time_ms for span in leading.values()), at_starts(leading)
            beside = what_is_left(cuts, following, self._starts, self._spans, self._used)
        return time_ms, {**cuts, **self._with_next_times(beside)}

    def share(self) -> Cuts:
        """Share the budget by backlog, ignoring event times."""
        everything = {**at_ends(self._spans), **self._standing.hollow}
        return self._with_next_times(cut_by_position(everything, self._starts, self._spans, self._used))

    def _reads(self, cuts: Cuts) -> bool:
        return any(cut.position > self._starts[s] for s, cut in cuts.items())

    def _used(self, cuts: Cuts) -> float:
        """Return the share of the budget that cuts take; positions before a head may also hold rows."""
        if self._limits.budget == UNLIMITED:
            return 0.0
        if self._limits.cost is split_rows:  # a search asks often and for all splits, so it saves an object for each
            starts = self._starts
            return self._limits.budget.used(Cost(sum([cut.position - starts[s] for s, cut in cuts.items()])))
        return self._limits.budget.used(self._limits.cost(self._standing.ranges(cuts)))

    def _past_all(self) -> int:
        """Return an event time after all unread records: the bound if only the budget limits."""
        latest = self._standing.latest(self._index, self._spans)
        return 1 + max([span.head.event_time_ms for span in self._spans.values()] + [*latest.values()])

    def _room(self, leading: Collection[SplitId], following: Cuts) -> float:
        """Return the share of the budget that the common cut may take; the rest keeps followers from starving."""
        fair = len(following) / max(len(leading) + len(following), 1)
        return 1 - min(self._used(following), fair, _MOST_FOR_FOLLOWING) if leading else 1

    def _draws(self, leading: Collection[SplitId], following: Collection[SplitId]) -> bool:
        """Decide by lot whether the splits that follow are read alone.  The lot stays the same until something is read.

        That happens if one position is too large for both, such as a chunk of a file.
        """
        lot = Random(sum(self._starts.values())).random()  # noqa: S311 - the same for the same positions
        return lot < len(following) / (len(leading) + len(following))

    def _with_next_times(self, cuts: Cuts) -> Cuts:
        """Return cuts that were made without event times, now with the next event times for the watermark."""
        if not self._limits.wants_watermark:
            return cuts
        inside = {s: cut.position for s, cut in cuts.items() if s in self._spans and cut.position < self._spans[s].end}
        heads = self._index.heads(inside)
        return {
            s: cut if (head := heads.get(s)) is None else cut._replace(next_ms=head.event_time_ms)
            for s, cut in cuts.items()
        }
