"""The bound of a batch: the event time at or past which nothing is read (rule 2 of ``docs/planning.md``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tidegate.alignment.group import GroupBound
from tidegate.alignment.plan import Limits
from tidegate.alignment.splits import SplitId
from tidegate.alignment.standing import Standing
from tidegate.alignment.watermark import advanced

_SetBy: TypeAlias = "tuple[int | None, SplitId | None]"


class Bound(NamedTuple):
    """The limit of a batch, and what sets it.

    low_ms: the lowest event time that holds back the bound, in this source and its group.
    bound_ms: exclusive; None: only the budget limits the batch.
    held_by: the split, or the other member of the group, that sets it.
    ahead: the splits from which nothing is read, because their generators' watermarks are past the drift.
    """

    low_ms: int | None = None
    bound_ms: int | None = None
    held_by: SplitId | None = None
    ahead: frozenset[SplitId] = frozenset()


def find_bound(standing: Standing, group_bound: GroupBound | None, limits: Limits) -> Bound:
    """Return the least bound of the max drift, the group and the horizon."""
    others = group_bound or GroupBound()
    if limits.drift_by_watermark and limits.max_drift_ms is not None:
        return _bound_by_watermarks(standing, others, limits.max_drift_ms, limits)
    bounds = [
        (_own_bound_ms(standing, limits), standing.held_by),
        (others.bound_ms, others.held_by),
        (limits.held_from_ms, standing.held_by),
    ]
    bound_ms, held_by = _first(bounds, standing.held_by)
    return Bound(_least((standing.low_ms, others.low_ms)), bound_ms, held_by)


def _bound_by_watermarks(standing: Standing, others: GroupBound, max_drift_ms: int, limits: Limits) -> Bound:
    """Return the bound if generators' watermarks are kept together (FLIP-182, FLIP-217: a split past it is paused).

    The others are read in slices of event time, as long as the drift, until the marks come for which they wait.  A
    slice begins at the first of their heads, so a split that is resumed may have an earlier slice than the last one.
    """
    own_ms = None if standing.low_ms is None else standing.low_ms + max_drift_ms
    most_ms, held_by = _first([(own_ms, standing.held_by), (others.bound_ms, others.held_by)], standing.held_by)
    open_ms, spans = standing.open_ms, standing.spans
    ahead = frozenset(s for s in spans if most_ms is not None and s in open_ms and open_ms[s] >= most_ms)
    left_out = ahead | standing.ignored
    head_ms = _least(span.head.event_time_ms for s, span in spans.items() if s not in left_out)
    bound_ms = _least((_drift_after(standing, head_ms, max_drift_ms), limits.held_from_ms))
    return Bound(_least((standing.low_ms, others.low_ms)), bound_ms, held_by, ahead)


def _own_bound_ms(standing: Standing, limits: Limits) -> int | None:
    if limits.max_drift_ms is None:
        return None
    bound_ms = _drift_after(standing, standing.low_ms, limits.max_drift_ms)
    # Rule 2: the bound never falls, except through a split that catches up.
    return bound_ms if standing.catching_up else advanced(standing.before.bound_ms, bound_ms)


def _drift_after(standing: Standing, low_ms: int | None, max_drift_ms: int) -> int | None:
    # Overdue splits hold back no other split, but must be read, within the drift.
    held_ms = standing.before.in_time_ms if low_ms is None else low_ms
    return None if held_ms is None else held_ms + max_drift_ms


def _first(bounds: Iterable[_SetBy], held_by: SplitId | None) -> _SetBy:
    """Return the least of several bounds, and what sets it."""
    set_ms = [(at_ms, by) for at_ms, by in bounds if at_ms is not None]
    return min(set_ms, key=lambda limit: limit[0], default=(None, held_by))


def _least(times_ms: Iterable[int | None]) -> int | None:
    return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)
