"""The bound that an alignment group sets for one of its members (FLIP-182: watermark alignment group).

Each member reports the lowest event time that it still has to read.  No member reads further past the lowest of all
than the max drift.  This module is pure: other modules exchange the times.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

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
