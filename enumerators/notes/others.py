"""What a member of an alignment group hears of the others: the notes that they renew within a lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from typing_extensions import Self

from tidegate.alignment.group import Member
from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.folder import NoteFolder

_LOG = logging.getLogger("tidegate.planner")


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
    """The note of a member: itself, the number of its plans, the name of its last renewal, and its last progress."""

    member: _MemberNote
    plans: int
    renewal: _Name
    progress: dict[str, Any] | None = None

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


class OtherMembers:
    """The other members, by their notes.  Times of other machines are never compared."""

    def __init__(self, notes: NoteFolder, lease_s: float, clock: Callable[[], float]) -> None:
        self._notes, self._lease_s, self._clock = notes, lease_s, clock
        self._heard_of: dict[str, _Heard] = {}
        self._damaged: set[str] = set()  # notes that cannot be read
        self._looked_at = float("-inf")
        self._looking = threading.Lock()
        self._has_swept = False

    def alive(self, own_id: str) -> list[tuple[Member, int]]:
        """Return the members that renewed their notes within a lease, each with the number of its plans."""
        if self._clock() - self._looked_at >= self._notes.repeat_s:
            self.look(own_id)
        now = self._clock()
        return [
            (heard.member, heard.plans) for heard in self._heard_of.values() if now - heard.seen_at <= self._lease_s
        ]

    def look(self, own_id: str) -> None:
        """Read all notes but that of ``own_id``; the first look removes those of members killed a day ago."""
        with self._looking:
            if not self._has_swept:
                self._notes.sweep()
                self._has_swept = True
            now, heard_of = self._clock(), {}
            others = [(name, note) for name, note in self._notes.notes() if name != own_id]
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
