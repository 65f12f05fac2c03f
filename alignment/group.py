"""What an alignment group allows each of its members (FLIP-182: watermark alignment group).

Members tell each other the lowest event time they still have to read, and none reads further past
the lowest of all than the max drift.  Pure: how members hear of each other is for others to know.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tidegate.errors import OptionError

__all__ = ["UNGROUPED", "GroupBound", "Member", "group_bound"]


@dataclass(frozen=True, slots=True)
class Member:
    """What a source tells the others of its group.

    id: names it for the life of its checkpoint.
    max_drift_ms: must be the same for all.
    joined: when it did, on the clock of the group; of two that contradict each other the later is wrong.
    priority: a member with a higher one is read first.
    low_ms: the lowest event time that it has still to read; None: it holds nobody (all its splits
        are idle or finished).
    reads: what it reads, for people.
    """

    id: str
    max_drift_ms: int
    joined: float = 0.0
    priority: int = 0
    low_ms: int | None = None
    reads: str = ""


@dataclass(frozen=True, slots=True)
class GroupBound:
    """What the others leave to a member.

    low_ms: the lowest event time that one of them has still to read; None: none holds.
    bound_ms: nothing at or past this event time may be read; None: there is no bound.
    held_by: the member that sets the bound.
    """

    low_ms: int | None = None
    bound_ms: int | None = None
    held_by: str | None = None


UNGROUPED = GroupBound()


def group_bound(me: Member, others: Collection[Member], missing: str | None, stored_bound_ms: int | None) -> GroupBound:
    """Return what ``others`` leave to ``me``.

    missing: a member that is expected and was not heard yet; until then nothing past the stored
        bound is read, and nothing at all if there is none.

    Deadlock-free: of the members with the lowest low, those of the highest priority are held by
    none, for their head lies before the low plus a drift of at least 1 ms.

    Raises OptionError when a member that joined earlier has another max drift.
    """
    for other in others:
        if other.max_drift_ms != me.max_drift_ms and (other.joined, other.id) < (me.joined, me.id):
            raise OptionError(
                f"maxDrift is {me.max_drift_ms} ms, but another source of the alignmentGroup has "
                f"{other.max_drift_ms} ms; all sources of a group need the same"
            )
    holding = [(other.low_ms, other.id, other.priority) for other in others if other.low_ms is not None]
    low_ms = min((low for low, _, _ in holding), default=None)
    if missing is not None:
        return GroupBound(low_ms, me.low_ms if stored_bound_ms is None else stored_bound_ms, missing)
    bounds = [(low + me.max_drift_ms, name) for low, name, _ in holding]
    # What goes first is not only within the drift: it has been read up to there.
    bounds += [(low, name) for low, name, priority in holding if priority > me.priority]
    bound_ms, held_by = min(bounds, default=(None, None))
    return GroupBound(low_ms, bound_ms, held_by)
