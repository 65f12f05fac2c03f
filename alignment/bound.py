"""The bound of a batch, by this source and by its alignment group (FLIP-182: watermark alignment group).

Nothing is read at or past the bound (rule 2 of ``docs/planning.md``).

Each member of a group reports the lowest event time that it still has to read.  No member reads further past the lowest
of all than the max drift.  This module is pure: other modules exchange the times.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.alignment.plan import Limits
from tidegate.alignment.splits import SplitId
from tidegate.alignment.standing import Standing
from tidegate.alignment.watermark import advanced
from tidegate.errors import OptionError


@dataclass(frozen=True, slots=True)
class Member:
    """A source as the other members of its group see it.

    id: the member's name for the life of its checkpoint.
    max_drift_ms: must be the same for all members.
    joined: when the member joined, in seconds since the epoch.  If two members contradict each other, the later one is
        wrong.
    low_ms: the lowest event time that the member still has to read; None: it holds back no other (all its splits are
        idle or finished).
    reads: the topics or the path that it reads, for display.
    """

    id: str
    max_drift_ms: int
    joined: float = 0.0
    low_ms: int | None = None
    reads: str = ""


@dataclass(frozen=True, slots=True)
class GroupBound:
    """The bound that the others set for a member.

    low_ms: the lowest event time that another member still has to read.
    bound_ms: nothing at or past this event time may be read.
    """

    low_ms: int | None = None
    bound_ms: int | None = None
    held_by: str | None = None


def group_bound(me: Member, others: Collection[Member], missing: str | None, until_ms: int | None) -> GroupBound:
    """Return the bound that ``others`` set for ``me``.

    missing: an expected member that has not reported yet; None: all have.
    until_ms: while a member is missing, nothing at or past this event time is read.

    Free of deadlocks: nothing holds back the members with the lowest low, since their head is before the low plus a
    drift of at least 1 ms.

    Raises OptionError when a member that joined earlier has another max drift.
    """
    for other in others:
        if other.max_drift_ms != me.max_drift_ms and (other.joined, other.id) < (me.joined, me.id):
            raise OptionError(
                f"maxDrift is {me.max_drift_ms} ms, but another source of the alignmentGroup has "
                f"{other.max_drift_ms} ms; all sources of a group need the same"
            )
    holding = [(other.low_ms, other.id) for other in others if other.low_ms is not None]
    low_ms, held_by = min(holding, default=(None, None))
    bound_ms = None if low_ms is None else low_ms + me.max_drift_ms
    if missing is not None and (bound_ms is None or until_ms is None or until_ms < bound_ms):
        return GroupBound(low_ms, until_ms, missing)
    return GroupBound(low_ms, bound_ms, held_by)


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
