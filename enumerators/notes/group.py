"""A source's membership of an alignment group: a note in a folder, kept alive by a thread.

Every member has one note with its lowest unread event time, which it renews.  A member whose note does not change for
the time of a lease was killed, and no longer holds back others.  When it comes back, it takes part again (FLINK-35157,
FLINK-40505).  Clocks are never compared, so members may run on several machines.  A thread renews the note, because
there is only one plan per batch.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace

from tidegate.alignment.group import GroupBound, Member, group_bound
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.others import OtherMembers
from tidegate.errors import ConnectorError, TidegateError

_LOG = logging.getLogger("tidegate.planner")
_RENEWALS_PER_LEASE = 5
_POLL_S = 0.05
_PATIENCE_S = 0.1
_MOST_PATIENCE_S = 10.0


class GroupFolder:
    """A source's part in a group; one for each run.

    expected: how many members, including this one, must have joined before any reads; None: any number.
    lease_s: how long a silent member holds back the others, and how long members wait for expected ones.
    clocks: if a test moves them, no thread renews the note, and the test calls ``renew``.
    """

    def __init__(
        self,
        notes: NoteFolder,
        max_drift_ms: int,
        priority: int = 0,
        expected: int | None = None,
        *,
        reads: str = "a source",
        lease_s: float = 60.0,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        self._notes, self._expected, self._lease_s, self._clock = notes, expected, lease_s, clocks.monotonic
        self._is_real = clocks.are_real
        self._me = Member(uuid.uuid4().hex[:12], max_drift_ms, clocks.wall(), priority, reads=reads)
        self._run, self._renewals, self._renewed_at = uuid.uuid4().hex[:12], 0, float("-inf")
        self._other_members = OtherMembers(notes, lease_s, clocks.monotonic)
        self._peers: frozenset[str] = frozenset()  # members that the run's first offset names
        self._stored: frozenset[str] = frozenset()  # members that the last offset names
        self._met: set[str] = set()
        self._begun = self._joined = False
        self._plans = 0
        self._progress: Json | None = None
        self._writing = threading.Lock()
        self._left = threading.Event()
        self._patience = _Patience(clocks, max(_POLL_S, notes.repeat_s))
        self._joined_at = 0.0

    def join(self, state: Json | None) -> None:
        """Continue as the member that the start offset names.

        state: the ``snapshot`` in that offset; None: the query begins, and its first batch reads nothing, because the
            others do not know this member yet.  Called before every plan.
        """
        self._plans += 1
        self._begun = state is not None
        self._stored = frozenset(map(str, (state or {}).get("peers", ())))
        if self._joined:
            return
        self._joined, self._joined_at = True, self._clock()
        if state is not None:
            self._me = replace(self._me, id=str(state["id"]))
            self._peers = self._stored
        if self._is_real:
            threading.Thread(target=self._renew_for_ever, name="tidegate-group-lease", daemon=True).start()

    def bound(self, low_ms: int | None, until_ms: int | None) -> GroupBound:
        """Report the lowest unread event time to the others, and return the bound that they allow.

        The order matters: if two members wake at once, at least one sees the other.  Called once per plan, before
        anything is cut.

        until_ms: while a member is missing, nothing at or past this event time is read.
        """
        before_ms = self._me.low_ms
        self.tell(low_ms)
        if low_ms is not None and (before_ms is None or low_ms < before_ms):
            self._other_members.look(self._me.id)  # this member wakes: another may have woken since the notes were read
        others = {member.id: member for member, _ in self._others()}
        if len(others) + 1 >= (self._expected or 0):
            self._expected = None
        self._met |= others.keys()
        return group_bound(self._me, others.values(), self._missing(len(others)), until_ms)

    def tell(self, low_ms: int | None) -> None:
        """Report the lowest unread event time after a plan to the others, once its offset is stored."""
        is_news = low_ms != self._me.low_ms
        self._me = replace(self._me, low_ms=low_ms)
        if is_news or self._clock() - self._renewed_at >= self._notes.repeat_s:
            self._write()

    def show(self, progress: Json | None) -> None:
        """Put the progress of the last plan into the next notes, for ``tidegate watch`` on other machines."""
        self._progress = progress

    def renew(self) -> None:
        """Renew the note, and see which members renewed theirs.  A thread calls this several times per lease."""
        self._write()
        self._other_members.look(self._me.id)

    def _write(self) -> None:
        with self._writing:
            if not self._left.is_set():
                asked_at, self._renewals = self._clock(), self._renewals + 1
                renewal = f"{self._run}-{self._renewals}"
                shown = {} if self._progress is None else {"progress": self._progress}
                note = {"member": asdict(self._me), "plans": self._plans, "renewal": renewal, **shown}
                self._notes.write(self._me.id, note)
                self._renewed_at = asked_at

    def wait(self, held_by: str) -> bool:
        """Wait for the member that holds back this one.  True: plan again; False: patience is over."""
        return self._patience.wait(lambda: [note for note in self._others() if note[0].id == held_by])

    def name_of(self, member: str) -> str:
        """Return the topics or the path of a member, and its id; for an absent member only the id."""
        return next((f"{other.reads} ({other.id})" for other, _ in self._others() if other.id == member), member)

    def grew(self) -> bool:
        """Return whether there are members that the start offset does not name; a restart must know them."""
        return any(member.id not in self._stored for member, _ in self._others())

    def snapshot(self) -> Json:
        """Return the state that ``join`` needs after a restart: this member, and the members to wait for."""
        return {"id": self._me.id, "peers": sorted(member.id for member, _ in self._others())}

    def leave(self) -> None:
        """Stop holding back the others; may be called twice, and without ``join``.

        Raises nothing, because a query may end with another error: the lease ends by itself.
        """
        with self._writing, suppress(TidegateError):
            self._left.set()
            if self._joined:
                self._notes.remove(self._me.id)

    def _missing(self, others: int) -> str | None:
        """Return the member to wait for before anything is read."""
        if not self._begun:
            return self._me.id
        if self._clock() - self._joined_at > self._lease_s:
            if self._expected is not None:
                _LOG.warning("alignmentMembers is %d, but only %d came; the group begins", self._expected, others + 1)
                self._expected = None
            return None
        return "a member that is not there yet" if self._expected else min(self._peers - self._met, default=None)

    def _others(self) -> list[tuple[Member, int]]:
        return self._other_members.alive(self._me.id)

    def _renew_for_ever(self) -> None:
        while not self._left.wait(self._lease_s / _RENEWALS_PER_LEASE):
            with suppress(ConnectorError):  # the next plan raises it, in the query
                self.renew()


class _Patience:
    """Waits for news from another member, but not forever.

    Waiting helps if the other member is in another query.  It never helps in the same query, because Spark asks its
    sources one after the other.  A member does not know which is the case.  But a member of the same query has news
    between two waits.  So waits are short while there is news, and double while there is none.
    """

    def __init__(self, clocks: Clocks, poll_s: float) -> None:
        self._clock, self._sleep, self._poll_s = clocks.monotonic, clocks.sleep, poll_s
        self._last: object = None
        self._seconds = _PATIENCE_S

    def wait(self, ask: Callable[[], object]) -> bool:
        """Return True when ``ask`` has a new answer, False when patience is over."""
        before = ask()
        self._seconds = min(2 * self._seconds, _MOST_PATIENCE_S) if before == self._last else _PATIENCE_S
        self._last = before
        until = self._clock() + self._seconds
        while ask() == before:
            if self._clock() >= until:
                return False
            self._sleep(self._poll_s)
        return True
