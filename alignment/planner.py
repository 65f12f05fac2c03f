"""The plan of one micro-batch: the range of each split, cut at one common event time.

Three steps: ``find_standing`` finds the standing of the splits, and the low of this source; its group takes that low
and sets a bound; the rest cuts the splits and finds the outcome.  All of it runs at every trigger, keeps no state and
has no effects: it asks only the time index, and the group.  The rules are numbered as in ``docs/planning.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

from tidegate.alignment.batch import Cuts, at_ends, at_starts, cut_at_one_time, cut_by_position, what_is_left
from tidegate.alignment.bound import Bound, GroupBound, find_bound
from tidegate.alignment.budget import UNLIMITED, Cost, split_rows
from tidegate.alignment.cuts import Cut, Cutter
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.outcome import find_outcome
from tidegate.alignment.plan import Limits, Observed, Plan
from tidegate.alignment.splits import SplitId
from tidegate.alignment.standing import Standing, find_standing

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
