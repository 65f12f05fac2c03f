"""A source's membership of an alignment group: a note in a folder, kept alive by a thread.

Every member has one note with its lowest unread event time and a lease.  A member whose lease is over (it was killed)
holds nobody; when it comes back, it takes part again (FLINK-35157, FLINK-40505).  A thread renews the lease, because a
plan comes only once per batch.
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
from tidegate.errors import ConnectorError

__all__ = ["LEASE_S", "GroupFolder"]

_LOG = logging.getLogger("tidegate.planner")
LEASE_S = 10.0
_RENEWALS_PER_LEASE = 5
_POLL_S = 0.05
_PATIENCE_S = 0.1
_MOST_PATIENCE_S = 10.0


class GroupFolder:
    """Takes part in a group; one for each run of a source.

    folder: of the group.
    max_drift_ms, priority, reads: see Member.
    expected: the number of members, with this one, that must be there before anyone reads; None: any.
    lease_s: how long a silent member holds the others, and how long expected members are waited for.
    renewed_by_thread: False: the caller calls ``renew``.
    """

    def __init__(
        self,
        folder: NoteFolder,
        max_drift_ms: int,
        priority: int = 0,
        expected: int | None = None,
        *,
        reads: str = "a source",
        lease_s: float = LEASE_S,
        renewed_by_thread: bool = True,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        self._folder, self._expected, self._lease_s, self._clock = folder, expected, lease_s, clocks.monotonic
        self._renewed_by_thread = renewed_by_thread
        self._me = Member(uuid.uuid4().hex[:12], max_drift_ms, clocks.monotonic(), priority, reads=reads)
        self._peers: frozenset[str] = frozenset()  # members that the run's first offset names
        self._stored: frozenset[str] = frozenset()  # members that the last offset names
        self._heard: set[str] = set()
        self._begun = self._joined = False
        self._plans = 0
        self._writing = threading.Lock()
        self._left = threading.Event()
        self._patience = _Patience(clocks)
        self._joined_at = 0.0

    def join(self, state: Json | None) -> None:
        """Go on as the member that the start offset names.

        state: the ``snapshot`` in that offset; None: the query begins, and its first batch reads nothing, because
            nobody knows this member yet.  Called before every plan.
        """
        self._plans += 1
        self._begun = state is not None
        self._stored = frozenset(map(str, (state or {}).get("peers", ())))
        if state is not None and not self._joined:
            self._me = replace(self._me, id=str(state["id"]))
            self._peers = self._stored
        if not self._joined:
            self._joined_at = self._clock()
        if not self._joined and self._renewed_by_thread:
            threading.Thread(target=self._renew_for_ever, name="tidegate-group-lease", daemon=True).start()
        self._joined = True

    def bound(self, low_ms: int | None, stored_bound_ms: int | None) -> GroupBound:
        """Tell the others the lowest unread event time, and return what they allow.

        In this order: if two members wake at once, at least one sees the other.  Called once per plan, before anything
        is cut.

        stored_bound_ms: of the last batch.
        """
        self.tell(low_ms)
        others = {member.id: member for member, _ in self._others()}
        if len(others) + 1 >= (self._expected or 0):
            self._expected = None
        self._heard |= others.keys()
        return group_bound(self._me, others.values(), self._missing(len(others)), stored_bound_ms)

    def tell(self, low_ms: int | None) -> None:
        """Tell the others the lowest unread event time; after a plan, once its offset is safe."""
        self._me = replace(self._me, low_ms=low_ms)
        self.renew()

    def renew(self) -> None:
        """Renew the lease."""
        with self._writing:
            if not self._left.is_set():
                note = {"member": asdict(self._me), "plans": self._plans, "renewed": self._clock()}
                self._folder.write(self._me.id, note)

    def wait(self, held_by: str) -> bool:
        """Wait for the member that holds this one.  True: plan again; False: patience is over, so the plan stands."""
        return self._patience.wait(lambda: [note for note in self._others() if note[0].id == held_by])

    def name_of(self, member: str) -> str:
        """Return the topics or the path of a member, and its id; only the id of an absent one."""
        return next((f"{other.reads} ({other.id})" for other, _ in self._others() if other.id == member), member)

    def grew(self) -> bool:
        """Tell whether there are members that the start offset does not name; a restart must know them."""
        return any(member.id not in self._stored for member, _ in self._others())

    def snapshot(self) -> Json:
        """Return the state that ``join`` needs after a restart: this member, and those to wait for."""
        return {"id": self._me.id, "peers": sorted(member.id for member, _ in self._others())}

    def leave(self) -> None:
        """Hold the others no longer; may be called twice, and without ``join``."""
        with self._writing:
            self._left.set()
            if self._joined:
                self._folder.remove(self._me.id)

    def _missing(self, others: int) -> str | None:
        """Return the member that is waited for before anything is read."""
        if not self._begun:
            return self._me.id
        if self._clock() - self._joined_at > self._lease_s:
            if self._expected is not None:
                _LOG.warning("alignmentMembers is %d, but only %d came; the group begins", self._expected, others + 1)
                self._expected = None
            return None
        return "a member that is not there yet" if self._expected else min(self._peers - self._heard, default=None)

    def _others(self) -> list[tuple[Member, int]]:
        """Return the members whose lease is not over, each with the number of its plans."""
        members = []
        for name, note in self._folder.notes():
            # After the note was read, or a renewal would seem to lie in the future.  A renewal in the future is from
            # before a reboot.
            if name != self._me.id and 0 <= self._clock() - note["renewed"] <= self._lease_s:
                members.append((Member(**note["member"]), note["plans"]))
        return members

    def _renew_for_ever(self) -> None:
        while not self._left.wait(self._lease_s / _RENEWALS_PER_LEASE):
            with suppress(ConnectorError):  # the next plan raises it, in the query
                self.renew()


class _Patience:
    """Waits for news of another member, but never for ever.

    A wait helps if the other member is of another query.  It never helps in the same query, because Spark asks its
    sources one after the other.  A member does not know which is the case.  But one of the same query has news between
    two waits.  So waits are short while news comes, and double while none does.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clock, self._sleep = clocks.monotonic, clocks.sleep
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
            self._sleep(_POLL_S)
        return True
