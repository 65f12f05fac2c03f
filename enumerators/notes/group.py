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
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated, NamedTuple, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from typing_extensions import Self

from tidegate.alignment.group import GroupBound, Member, group_bound
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import Json
from tidegate.errors import ConnectorError

__all__ = ["GroupFolder", "Notes"]

_LOG = logging.getLogger("tidegate.planner")
_RENEWALS_PER_LEASE = 5
_POLL_S = 0.05
_PATIENCE_S = 0.1
_MOST_PATIENCE_S = 10.0


class Notes(Protocol):
    """The notes of all members of a group, by member id; each member writes only its own.

    repeat_s: how many seconds an unchanged note is not written again, and how long the notes that were read stay valid.
    """

    repeat_s: float

    def write(self, name: str, note: Json) -> None:
        """Write a note, or replace the note of that name; raises ConnectorError if that is not possible."""

    def notes(self) -> Iterable[tuple[str, Json | None]]:
        """Return all notes by name; None: it is damaged."""

    def remove(self, name: str) -> None:
        """Remove a note if it exists."""


_Time: TypeAlias = Annotated[int, Field(ge=-(2**62), le=2**62)]
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=100)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _MemberNote(_Strict):
    """The fields of ``Member`` in a note."""

    id: _Name
    max_drift_ms: Annotated[int, Field(ge=1, le=2**62)]
    joined: float
    priority: _Time
    low_ms: _Time | None
    reads: Annotated[str, Field(max_length=10_000)]


class _Note(_Strict):
    """The note of a member: itself, the number of its plans, and the name of its last renewal."""

    member: _MemberNote
    plans: int
    renewal: _Name

    @model_validator(mode="after")
    def _own(self, info: ValidationInfo) -> Self:
        if self.member.id != info.context:
            raise ValueError("it has the name of another member")
        return self


class _Heard(NamedTuple):
    """A member's note: the number of its plans, its last renewal, and when that was first seen."""

    member: Member
    plans: int
    renewal: str
    seen_at: float


class GroupFolder:
    """A source's part in a group; one for each run.

    notes: the notes of the group.
    max_drift_ms, priority, reads: see Member.
    expected: how many members, including this one, must have joined before any reads; None: any number.
    lease_s: how long a silent member holds back the others, and how long members wait for expected ones.
    renewed_by_thread: whether a thread renews the note; False: the caller calls ``renew``.
    """

    def __init__(
        self,
        notes: Notes,
        max_drift_ms: int,
        priority: int = 0,
        expected: int | None = None,
        *,
        reads: str = "a source",
        lease_s: float = 60.0,
        renewed_by_thread: bool = True,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        self._notes, self._expected, self._lease_s, self._clock = notes, expected, lease_s, clocks.monotonic
        self._renewed_by_thread = renewed_by_thread
        self._me = Member(uuid.uuid4().hex[:12], max_drift_ms, clocks.wall(), priority, reads=reads)
        self._run, self._renewals, self._renewed_at = uuid.uuid4().hex[:12], 0, float("-inf")
        self._heard_of: dict[str, _Heard] = {}
        self._damaged: set[str] = set()  # notes that cannot be read
        self._looked_at = float("-inf")
        self._peers: frozenset[str] = frozenset()  # members that the run's first offset names
        self._stored: frozenset[str] = frozenset()  # members that the last offset names
        self._met: set[str] = set()
        self._begun = self._joined = False
        self._plans = 0
        self._writing, self._looking = threading.Lock(), threading.Lock()
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
        if state is not None and not self._joined:
            self._me = replace(self._me, id=str(state["id"]))
            self._peers = self._stored
        if not self._joined:
            self._joined_at = self._clock()
        if not self._joined and self._renewed_by_thread:
            threading.Thread(target=self._renew_for_ever, name="tidegate-group-lease", daemon=True).start()
        self._joined = True

    def bound(self, low_ms: int | None, until_ms: int | None) -> GroupBound:
        """Report the lowest unread event time to the others, and return the bound that they allow.

        The order matters: if two members wake at once, at least one sees the other.  Called once per plan, before
        anything is cut.

        until_ms: while a member is missing, nothing at or past this event time is read.
        """
        before_ms = self._me.low_ms
        self.tell(low_ms)
        if low_ms is not None and (before_ms is None or low_ms < before_ms):
            self._look()  # this member wakes: another may have woken since the notes were read
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

    def renew(self) -> None:
        """Renew the note, and see which members renewed theirs.  A thread calls this several times per lease."""
        self._write()
        self._look()

    def _write(self) -> None:
        with self._writing:
            if not self._left.is_set():
                asked_at, self._renewals = self._clock(), self._renewals + 1
                renewal = f"{self._run}-{self._renewals}"
                self._notes.write(self._me.id, {"member": asdict(self._me), "plans": self._plans, "renewal": renewal})
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
        """Stop holding back the others; may be called twice, and without ``join``."""
        with self._writing:
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
        """Return the members that renewed their notes within a lease, each with the number of its plans."""
        if self._clock() - self._looked_at >= self._notes.repeat_s:
            self._look()
        now = self._clock()
        return [
            (heard.member, heard.plans) for heard in self._heard_of.values() if now - heard.seen_at <= self._lease_s
        ]

    def _look(self) -> None:
        with self._looking:
            now, heard_of = self._clock(), {}
            others = [(name, note) for name, note in self._notes.notes() if name != self._me.id]
            for name, note in others:
                # If a note cannot be read, its member's lease runs out.
                if (heard := self._read(name, note, now)) is not None:
                    heard_of[name] = heard
            self._looked_at, self._heard_of = now, heard_of

    def _read(self, name: str, note: Json | None, now: float) -> _Heard | None:
        before = self._heard_of.get(name)
        try:
            said = _Note.model_validate(note, context=name)
        except ValidationError as problem:
            if name not in self._damaged:
                _LOG.warning(
                    "the note %r in the alignment group cannot be read, so it counts as absent: %s; use the same "
                    "version of tidegate in all applications of the group, and the location for nothing else",
                    name[:100],
                    problem.errors()[0]["msg"],
                )
            self._damaged.add(name)
            return before
        self._damaged.discard(name)
        is_old = before is not None and before.renewal == said.renewal
        member = Member(**said.member.model_dump())
        return _Heard(member, said.plans, said.renewal, before.seen_at if before is not None and is_old else now)

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
