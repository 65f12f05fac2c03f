"""The bound of a batch: the event time at or past which nothing is read (rule 2 of ``docs/planning.md``)."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.alignment.group import GroupBound
from tidegate.alignment.plan import Limits
from tidegate.alignment.splits import SplitId
from tidegate.alignment.standing import Standing
from tidegate.alignment.watermark import advanced


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
