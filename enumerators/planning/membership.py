"""The membership of a coordinator in an alignment group: it reports its low to the others, and gets a bound from them.

A plan is pure, so all exchange with a group happens here.  A source without a group has a membership that does nothing.
"""

from __future__ import annotations

from tidegate.alignment.bound import GroupBound
from tidegate.alignment.plan import Plan, Progress
from tidegate.alignment.standing import Standing
from tidegate.alignment.states import SplitState
from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.group import GroupFolder


class Membership:
    """The membership of one run."""

    def __init__(self, group: GroupFolder | None, max_drift_ms: int | None) -> None:
        self._group, self._max_drift_ms = group, max_drift_ms or 0
        self._has_joined = self._has_planned = False
        self._next_low_ms: int | None = None

    @property
    def is_member(self) -> bool:
        """Whether the source is in a group."""
        return self._group is not None

    def join(self, stored: Json | None, progress: Progress, *, bounded: bool) -> None:
        """Continue as the member that the start offset names.  Called before every plan.

        progress: of that offset.  No unread record is older than its bound by more than the max drift, unless it is
            late.  The others wait there until the first plan of this run has found its low, which may take long.
        """
        if self._group is None:
            return
        self._group.join(stored, bounded=bounded)
        if not self._has_joined:
            self._has_joined = True
            bound_ms = None if progress.late else progress.bound_ms
            self._group.tell(0 if bound_ms is None else bound_ms - self._max_drift_ms)

    def bound(self, standing: Standing) -> GroupBound | None:
        """Report our low to the others, and return the bound that they set for us."""
        if self._group is None:
            return None
        until_ms = standing.before.bound_ms  # while a member is missing, nothing past the last bound is read
        if until_ms is None:
            until_ms = min(standing.heads_ms.values(), default=None)
        return self._group.bound(standing.group_low_ms, until_ms)

    def has_news(self, stored: Json | None) -> bool:
        """Return whether the next offset must name this source's group, or new members of it."""
        return self._group is not None and (stored is None or self._group.grew())

    def holder(self, planned: Plan) -> str | None:
        """Return the member that holds back one of our splits."""
        paused = any(said.state is SplitState.PAUSED for said in planned.splits.values())
        return planned.held_by if paused and planned.held_by not in planned.splits else None

    def waits_for(self, holder: str | None) -> bool:
        """Return whether the member that holds us back may still read something while this bounded run lasts."""
        return self._group is not None and self._group.waits_for(holder)

    def has_news_of(self, member: str) -> bool:
        """Return whether the next run must know something about a member that the start offset does not say."""
        return self._group is not None and self._group.has_news_of(member)

    def wait(self, held_by: str) -> bool:
        """Wait for the member that holds us back.  True: plan again; False: patience is over, so the plan is final."""
        return self._group is not None and self._group.wait(held_by)

    def name_of(self, planned: Plan) -> str | None:
        """Return the name of the split or the member that sets the bound, for display."""
        if self._group is None or planned.held_by is None or planned.held_by in planned.splits:
            return planned.held_by
        return self._group.name_of(planned.held_by)

    def snapshot(self) -> Json | None:
        """Return the state that ``join`` needs after a restart."""
        return None if self._group is None else self._group.snapshot()

    def planned(self, planned: Plan) -> None:
        """Note the low after a batch whose offset is not stored yet."""
        self._has_planned, self._next_low_ms = True, planned.next_low_ms
        if self._group is not None:
            self._group.tell_done(done=False)

    def stored(self, group: Json | None, progress: Progress, *, bounded: bool) -> None:
        """Report the low after a batch: Spark has stored its offset, so it will be read in any case."""
        if self._group is None:
            return
        if self._has_planned:
            self._group.stored()
            self._group.tell(self._next_low_ms)
        else:  # this batch is replayed before the first plan of this run
            self.join(group, progress, bounded=bounded)

    def done(self) -> None:
        """Report that this member reads no more before records come, or in this bounded run."""
        if self._group is not None:
            self._group.tell_done(done=True)

    def leave(self) -> None:
        """Stop holding back the others, unless a bounded run has ended; may be called twice."""
        if self._group is not None:
            self._group.leave()
