"""A source's membership of an alignment group: a note in a folder, kept alive by a thread.

Every member has one note with its lowest unread event time, which it renews.  A member whose note does not change for
the time of a lease was killed, and no longer holds back others.  When it comes back, it takes part again (FLINK-35157,
FLINK-40505).  Clocks are never compared, so members may run on several machines.  A thread renews the note, because
there is only one plan per batch.

Bounded runs are pieces of one long stream.  A member leaves its note when such a run of it ends, and holds back the
others until its next run.  A bounded run waits only for members that may still read something meanwhile.  What a member
holds that does not, it leaves to the next run.  Only a member that gave no sign in a whole run, and a lease longer
than one and a half of its usual pauses, no longer holds back the next one.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import NamedTuple

from tidegate.alignment.group import GroupBound, Member, group_bound
from tidegate.alignment.plan import Progress
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks, usual_ms, with_pause
from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.others import NOTE_LAYOUT, Heard, OtherMembers
from tidegate.errors import ConnectorError, TidegateError

_LOG = logging.getLogger("tidegate.planner")
_RENEWALS_PER_LEASE = 5
_POLL_S = 0.05
_PATIENCE_S = 0.1
_MOST_PATIENCE_S = 10.0
_LONGEST_WAIT_S = 60.0  # of a bounded run, for a member that may come


class _Peer(NamedTuple):
    """A member that an offset names.

    run, renewal: its note that was seen last.
    silent_ms: how long before the begin of this run the first bounded one began in which the member gave no sign; None:
        it gave one in the last run.
    sign_ms: how long before it the last bounded run began in which it gave one; None: there was none.
    pause_ms: the same, with pauses of any length.
    pauses_ms: the last ones between the begins of runs in which it gave a sign.
    """

    run: str
    renewal: int
    silent_ms: int | None = None
    sign_ms: int | None = None
    pause_ms: int = 0
    pauses_ms: Sequence[int] = ()

    def later(self, passed_ms: int, lease_ms: int) -> _Peer:
        """Return the same for a run that began later."""
        # The wall clock may have been wrong in one of the two runs, so no more counts than is usual.  A lease always
        # does: after a few runs in quick succession, a retired member would hold back the others for hours.
        usual = usual_ms(self.pauses_ms)
        counted_ms = min(passed_ms, max(usual, lease_ms)) if usual else passed_ms
        silent_ms, sign_ms = (None if ms is None else ms + counted_ms for ms in (self.silent_ms, self.sign_ms))
        return self._replace(silent_ms=silent_ms, sign_ms=sign_ms, pause_ms=self.pause_ms + passed_ms)


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
        expected: int | None = None,
        *,
        reads: str = "a source",
        lease_s: float = 60.0,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        self._notes, self._expected, self._lease_s, self._clocks = notes, expected, lease_s, clocks
        self._clock = clocks.monotonic
        self._me = Member(_new_name(), max_drift_ms, clocks.wall(), reads=reads)
        self._run, self._renewals, self._renewed_at = _new_name(), 0, float("-inf")
        self._after: str | None = None  # the run before
        self._origin = self._me.id  # the name with which the query began: copies of its checkpoint share it
        self._may_have_copies = False
        self._other_members = OtherMembers(notes, lease_s, clocks.monotonic)
        self._peers: Mapping[str, _Peer] = {}  # members that the run's first offset names
        self._stored: Mapping[str, _Peer] = {}  # members that the last offset names
        self._stored_id: str | None = None
        self._met: set[str] = set()
        self._planned_with: Mapping[str, Heard] = {}  # what the last plan knew of the others
        self._joined = self._is_bounded = self._is_done = self._first_plan_is_over = self._has_planned = False
        self._next_low_ms: int | None = None
        self._waits_for: tuple[str, int | None] | None = None
        self._progress: Json | None = None
        self._writing = threading.Lock()
        self._left = threading.Event()
        self._patience = _Patience(clocks, max(_POLL_S, notes.repeat_s))
        self._joined_at, self._joined_ms = 0.0, 0

    def go_on(self, state: Json | None, progress: Progress, *, bounded: bool) -> None:
        """Join with the state in the start offset; until the first plan, hold the others where it may have left rows.

        progress: of that offset.  No unread record is older than its bound by more than the max drift, unless it is
            late.  A split that was late and has been read may be behind that, but not behind the watermark.  The offset
            does not say whether there is one, so the others wait at the lower of the two until the first plan of this
            run has found its low, which may take long.
        """
        has_joined = self._joined
        self.join(state, bounded=bounded)
        if not has_joined:
            bound_ms, in_time_ms = None if progress.late else progress.bound_ms, progress.in_time_ms
            low_ms = 0 if bound_ms is None else bound_ms - self._me.max_drift_ms
            self.tell(low_ms if in_time_ms is None else min(low_ms, in_time_ms))

    def join(self, state: Json | None, *, bounded: bool = False) -> None:
        """Continue as the member that the start offset names.

        state: the ``snapshot`` in that offset; None: the query begins, and its first batch reads nothing, because the
            others do not know this member yet.  Called before every plan.
        bounded: this run is.
        """
        self._stored = {str(name): _Peer(*peer) for name, peer in (state or {}).get("peers", {}).items()}
        self._stored_id = None if state is None else str(state["id"])
        if self._joined:
            return
        self._joined, self._is_bounded = True, bounded
        self._joined_at, self._joined_ms = self._clock(), int(self._clocks.wall() * 1000)
        if state is not None:
            self._me = replace(self._me, id=str(state["id"]))
            self._origin = str(state.get("origin", state["id"]))
            passed_ms = max(0, self._joined_ms - int(state.get("begun", self._joined_ms)))
            lease_ms = int(self._lease_s * 1000)
            self._peers = {name: peer.later(passed_ms, lease_ms) for name, peer in self._stored.items()}
            self._after = state.get("run")
        if self._clocks.are_real:
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
        others = self._others()
        if len(others) + 1 >= (self._expected or 0):
            self._expected = None
        self._met |= others.keys()
        self._planned_with = others
        return group_bound(self._me, [heard.member for heard in others.values()], self._missing(len(others)), until_ms)

    def tell(self, low_ms: int | None) -> None:
        """Report the lowest unread event time after a plan to the others, once its offset is stored."""
        is_news = low_ms != self._me.low_ms
        self._me = replace(self._me, low_ms=low_ms)
        if is_news or self._clock() - self._renewed_at >= self._notes.repeat_s:
            self._write()

    def planned(self, next_low_ms: int | None) -> None:
        """Note the low after a batch whose offset is not stored yet."""
        self._has_planned, self._next_low_ms = True, next_low_ms
        self.tell_done(done=False)

    def stored(self, state: Json | None, progress: Progress, *, bounded: bool) -> None:
        """Report the low after a batch: Spark has stored its offset, so it will be read in any case."""
        if not self._has_planned:  # this batch is replayed before the first plan of this run
            self.go_on(state, progress, bounded=bounded)
            return
        self._after = self._run  # who begins where this run began is now another member
        self.tell(self._next_low_ms)

    def tell_done(self, *, done: bool) -> None:
        """Report after a plan whether this member reads nothing more before records come, or before its next run."""
        self._first_plan_is_over = True
        if done != self._is_done:
            self._is_done = done
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
                self._share_no_name()
                asked_at, self._renewals = self._clock(), self._renewals + 1
                shown = {} if self._progress is None else {"progress": self._progress}
                about = {
                    "v": NOTE_LAYOUT,
                    "member": asdict(self._me),
                    "run": self._run,
                    "after": self._after,
                    "origin": self._origin,
                    "waits_for": self._waits_for,
                }
                self._notes.write(self._me.id, {**about, "renewal": self._renewals, "done": self._is_done, **shown})
                self._renewed_at, self._other_members.own_note = asked_at, self._me.id

    def _share_no_name(self) -> None:
        """Take another name if another run goes on under ours: its checkpoint and ours are copies of one another."""
        note = self._notes.read(self._me.id)
        if note is None and (own := self._other_members.own_note) is not None:
            self._other_members.check_place(own, self._notes.names())
        run = None if note is None else note.get("run")
        if not self._renewals:
            self._may_have_copies = run != self._after
        if not isinstance(run, str) or run == self._run:
            return
        if self._renewals:
            is_other = run > self._run  # if both see each other, one of them keeps the name
        else:  # the note is of the run before, or of one that began where this one begins, and has stored nothing
            is_other = self._after is not None and self._after not in (run, (note or {}).get("after"))
        if is_other:
            _LOG.warning(
                "another run takes part in the alignment group as the same member, since the checkpoint of one is a "
                "copy of the other's: this one goes on as a member of its own"
            )
            self._me, self._other_members.own_note = replace(self._me, id=_new_name()), None

    def wait(self, held_by: str) -> bool:
        """Wait for the member that holds back this one.  True: plan again; False: patience is over.

        The first plan does not wait for what the next sources of the query say: they are asked after it.
        """
        before = self._planned_with.get(held_by)
        return self._moved_on() is None and self._patience.wait(lambda: self._others().get(held_by), before)

    def waits_for(self, holder: str | None) -> bool:
        """Report who holds back this bounded run; return whether that member may still read something while it lasts.

        holder: None: no member, or this run has something to read.
        """
        is_held = self._is_held_by(holder)
        if holder is not None and not is_held:
            self._other_members.look(self._me.id)  # a run does not end by notes that may be a second old
            is_held = self._is_held_by(holder)
        return is_held

    def _is_held_by(self, holder: str | None) -> bool:
        heard = None if holder is None else self._other_members.known(self._me.id).get(holder)
        planned_with = None if holder is None else self._planned_with.get(holder)
        if heard is not None and (planned_with is None or heard.member.low_ms != planned_with.member.low_ms):
            return True  # it has come or read on since this one planned
        waits_for = None if heard is None else (heard.member.id, heard.member.low_ms)
        if waits_for != self._waits_for:
            self._waits_for = waits_for
            self._write()
        return holder is not None and self._may_read_on(heard)

    def _may_read_on(self, heard: Heard | None) -> bool:
        if heard is not None and heard.renewed:
            waits_for_us = self._other_members.waits_for(heard, self._me)
            return not heard.note.done and not waits_for_us and self._other_members.is_alive(heard)
        # It has given no sign yet.  One that ended a run since our last one is not waited for, but one that ran beside
        # it, or was killed, may come.
        comes = heard is None or not heard.note.done or self._runs_as_before(heard)
        return comes and self._clock() - self._joined_at <= min(self._lease_s, _LONGEST_WAIT_S)

    def name_of(self, member: str) -> str:
        """Return the topics or the path of a member, and its id; for an absent member only the id."""
        heard = self._others().get(member)
        return member if heard is None else f"{heard.member.reads} ({member})"

    def grew(self) -> bool:
        """Return whether there are members that the start offset does not name; a restart must know them."""
        return self._stored_id != self._me.id or not self._stored.keys() >= self._others().keys()

    def has_news_of(self, member: str) -> bool:
        """Return whether the next run must know something about a member that the start offset does not say."""
        now, before = self._named().get(member), self._stored.get(member)
        if now is None or before is None:
            return now != before
        return (now.run, now.silent_ms is None) != (before.run, before.silent_ms is None)

    def snapshot(self) -> Json:
        """Return the state that ``join`` needs after a restart: this member, and the members to wait for."""
        return {
            "id": self._me.id,
            "run": self._run,
            "begun": self._joined_ms,
            **({} if self._me.id == self._origin else {"origin": self._origin}),
            "peers": {name: [*p[:-1], [*p.pauses_ms]] for name, p in sorted(self._named().items())},
        }

    def leave(self) -> None:
        """Stop holding back the others; may be called twice, and without ``join``.

        The note of a bounded run that has ended stays.

        Raises nothing, because a query may end with another error: the lease ends by itself.
        """
        with self._writing, suppress(TidegateError):
            self._left.set()
            self._other_members.own_note = None
            if self._joined and not (self._is_bounded and self._is_done):
                self._notes.remove(self._me.id)

    def _missing(self, others: int) -> str | None:
        """Return the member to wait for before anything is read."""
        if self._stored_id != self._me.id:  # the others do not know this member yet
            return self._me.id
        if (moved := self._moved_on()) is not None:
            return moved
        is_over = self._clock() - self._joined_at > self._lease_s
        if is_over and self._expected is not None:
            _LOG.warning("alignmentMembers is %d, but only %d came; the group begins", self._expected, others + 1)
            self._expected = None
        if self._expected:
            return "a member that is not there yet"
        return None if is_over and not self._is_bounded else min(self._absent(), default=None)

    def _moved_on(self) -> str | None:
        """Return a member whose note may by now be that of another run, if our checkpoint was copied.

        Spark asks the sources of a query one after the other.  A source after us therefore may not have said yet that
        it goes on under another name, so the first plan of a run reads nothing by what its note says.
        """
        known = self._other_members.known(self._me.id)
        if self._first_plan_is_over or not (
            self._may_have_copies or any(it.note.origin == self._origin for it in known.values())
        ):
            return None
        moved = (name for name in self._peers.keys() & known.keys() if not self._runs_as_before(known[name]))
        return min(moved, default=None)

    def _absent(self) -> set[str]:
        """Return the members that the run's first offset names, and that have no note."""
        absent = self._peers.keys() - self._met
        return {name for name in absent if not (self._is_bounded and self._was_silent(self._peers[name]))}

    def _was_silent(self, peer: _Peer) -> bool:
        """Return whether a member was silent in a run before, and a lease longer than one and a half usual pauses."""
        if peer.silent_ms is None:
            return False
        overdue_ms = peer.silent_ms if peer.sign_ms is None else peer.sign_ms - usual_ms(peer.pauses_ms) * 3 // 2
        return min(peer.silent_ms, overdue_ms) >= self._lease_s * 1000

    def _runs_as_before(self, heard: Heard) -> bool:
        """Return whether the run's first offset already names the present run of a member."""
        peer = self._peers.get(heard.member.id)
        return peer is not None and peer.run == heard.note.run

    def _is_released(self, heard: Heard) -> bool:
        """Return whether a member no longer holds back this bounded run."""
        peer = self._peers.get(heard.member.id)
        is_silent = peer is not None and not heard.renewed and peer[:2] == (heard.note.run, heard.note.renewal)
        return peer is not None and is_silent and self._was_silent(peer)

    def _others(self) -> dict[str, Heard]:
        """Return the members that hold back this one."""
        known = self._other_members.known(self._me.id)
        if not self._is_bounded:
            return {name: heard for name, heard in known.items() if self._other_members.is_alive(heard)}
        return {name: heard for name, heard in known.items() if not self._is_released(heard)}

    def _named(self) -> dict[str, _Peer]:
        """Return what the next offset says about the other members."""
        absent = {name: self._peers[name] for name in self._absent()}
        if not self._is_bounded:
            return absent | {name: _Peer(heard.note.run, heard.note.renewal) for name, heard in self._others().items()}
        known = self._other_members.known(self._me.id)
        seen = {name: self._seen(heard) for name, heard in known.items()}
        return {name: self._silent(peer) for name, peer in absent.items()} | seen

    def _seen(self, heard: Heard) -> _Peer:
        """Return what a bounded run knows of a member that has a note."""
        run, renewal, peer = heard.note.run, heard.note.renewal, self._peers.get(heard.member.id)
        if peer is not None and peer.run == run and not heard.renewed:
            is_same = peer.renewal == renewal
            return self._silent(peer if is_same else peer._replace(renewal=renewal, silent_ms=None))
        pauses_ms: list[int] = []
        if peer is not None and peer.sign_ms is not None:
            pauses_ms = with_pause(peer.pauses_ms, peer.pause_ms)
        return _Peer(run, renewal, None, 0, 0, pauses_ms)

    def _silent(self, peer: _Peer) -> _Peer:
        return peer._replace(silent_ms=peer.silent_ms or 0)

    def _renew_for_ever(self) -> None:
        while not self._left.wait(self._lease_s / _RENEWALS_PER_LEASE):
            with suppress(ConnectorError):  # the next plan raises it, in the query
                self.renew()


def any_reads_on(notes: NoteFolder) -> bool:
    """Return whether a member of a group has not left it, and not ended its run."""
    return any(note is not None and not note.get("done") for _, note in notes.notes())


def _new_name() -> str:
    return uuid.uuid4().hex[:12]


class _Patience:
    """Waits for news from another member, but not forever.

    Waiting helps if the other member is in another query.  It never helps in the same query, because Spark asks its
    sources one after the other.  A member does not know which is the case.  But a member of the same query has news
    between two waits.  Waits are therefore short while there is news, and double otherwise.
    """

    def __init__(self, clocks: Clocks, poll_s: float) -> None:
        self._clock, self._sleep, self._poll_s = clocks.monotonic, clocks.sleep, poll_s
        self._last: object = None
        self._seconds = _PATIENCE_S

    def wait(self, ask: Callable[[], object], before: object) -> bool:
        """Return True when ``ask`` answers something else than ``before``, False when patience is over."""
        self._seconds = min(2 * self._seconds, _MOST_PATIENCE_S) if before == self._last else _PATIENCE_S
        self._last = before
        until = self._clock() + self._seconds
        while ask() == before:
            if self._clock() >= until:
                return False
            self._sleep(self._poll_s)
        return True
