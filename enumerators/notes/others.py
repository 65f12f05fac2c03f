"""What a member of an alignment group hears of the others: the notes that they renew within a lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from typing_extensions import Self

from tidegate.alignment.group import Member
from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.errors import ConnectorError
from tidegate.readers.models import Model

_LOG = logging.getLogger("tidegate.planner")


_Time: TypeAlias = Annotated[int, Field(ge=-(2**62), le=2**62)]
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=100)]


class _Strict(Model):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _MemberNote(_Strict):
    """The fields of ``Member`` in a note."""

    id: _Name
    max_drift_ms: Annotated[int, Field(ge=1, le=2**62)]
    joined: float
    low_ms: _Time | None
    reads: Annotated[str, Field(max_length=10_000)]


NOTE_LAYOUT = 6


class _Note(_Strict):
    """The note of a member.

    v: the number of this layout, which goes up with every change.
    member: the member itself.
    run: the name of its run.
    after: the name of the run that stored the offset with which this one began; None: the query began with it.
    origin: the name with which the member's query began: members that go on from copies of its checkpoint share it.
    renewal: a number that grows with each note of the run.
    done: the member reads nothing more before new records come or, in a bounded run, before its next run.
    waits_for: the member, and the low of that member, without which this bounded run can read nothing more.
    progress: that of its last plan, for display.
    """

    v: Literal[6]
    member: _MemberNote
    run: _Name
    after: _Name | None = None
    origin: _Name
    renewal: int
    done: bool = False
    waits_for: tuple[_Name, _Time | None] | None = Field(default=None, strict=False)
    progress: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _own(self, info: ValidationInfo) -> Self:
        if self.member.id != info.context:
            raise ValueError("it has the name of another member")
        return self


class Heard(NamedTuple):
    """What is known of another member.

    note: its last note.
    seen_at: when that was first seen.
    renewed: a note of it has come since this member first looked.
    """

    member: Member
    note: _Note
    seen_at: float
    renewed: bool


class OtherMembers:
    """The other members, by their notes.  Times of other machines are never compared."""

    def __init__(self, notes: NoteFolder, lease_s: float, clock: Callable[[], float]) -> None:
        self._notes, self._lease_s, self._clock = notes, lease_s, clock
        self._heard_of: dict[str, Heard] = {}
        self._damaged: set[str] = set()  # notes that cannot be read
        self._looked_at = float("-inf")
        self._looking = threading.Lock()
        self.own_note: str | None = None
        """The name of the note that this member has written."""

    def known(self, own_id: str) -> dict[str, Heard]:
        """Return all members that have a note, whenever it was renewed, by their names."""
        if self._clock() - self._looked_at >= self._notes.repeat_s:
            self.look(own_id)
        return self._heard_of

    def is_alive(self, heard: Heard) -> bool:
        """Return whether a member has renewed its note within a lease."""
        return self._clock() - heard.seen_at <= self._lease_s

    def waits_for(self, heard: Heard, me: Member) -> bool:
        """Return whether a member can read nothing before ``me`` does: it waits for it, or for one that does."""
        lows_ms = {name: other.member.low_ms for name, other in self._heard_of.items()} | {me.id: me.low_ms}
        waiting: Heard | None = heard
        for _ in lows_ms:
            if waiting is None or waiting.note.waits_for is None:
                return False
            name, low_ms = waiting.note.waits_for
            if name not in lows_ms or lows_ms[name] != low_ms:  # that member has read on since
                return False
            if name == me.id:
                return True
            waiting = self._heard_of.get(name)
        return False

    def look(self, own_id: str) -> None:
        """Read all notes but that of ``own_id``; the first look removes those of members that are gone for long."""
        with self._looking:
            is_first = self._looked_at == float("-inf")
            if is_first:
                self._notes.sweep()
            now, heard_of, own = self._clock(), {}, self.own_note
            notes = dict(self._notes.notes())
            self.check_place(own, notes)
            notes.pop(own_id, None)
            for name, note in notes.items():
                # If a note cannot be read, its member's lease runs out.
                if (heard := self._read(name, note, now, is_first=is_first)) is not None:
                    heard_of[name] = heard
            self._looked_at, self._heard_of = now, heard_of

    def check_place(self, own_note: str | None, names: Collection[str]) -> None:
        """Raise ConnectorError if this member's note is not among all notes: it cannot see the others', either."""
        if own_note is not None and own_note not in names:
            raise ConnectorError(
                f"{self._notes.place} has lost the note of this query, and maybe those of other members, so it ends "
                "before it reads past them: start it again once all members reach the same place"
            )

    def _read(self, name: str, note: Json | None, now: float, *, is_first: bool) -> Heard | None:
        before = self._heard_of.get(name)
        try:
            read = _Note.model_validate(note, context=name)
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
        if before is not None and (before.note.run, before.note.renewal) == (read.run, read.renewal):
            return before
        return Heard(Member(**read.member.model_dump()), read, now, renewed=not is_first)
