"""The snapshot of an S3 enumerator: names of files in the state location, and a few numbers.

The classes below alone know the keys of this JSON.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import NotRequired, TypedDict

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Json
from tidegate.enumerators.snapshots import checked

__all__ = ["S3Snapshot", "SeenSnapshot"]

_CLEAN, _REREADS, _FOLDERS, _LISTED = "clean", "rereads", "folders", "listed_ms"


class _Seen(TypedDict):
    runs: list[str]
    horizon: int | None
    newest: int | None


class _Stretches(TypedDict):
    roots: list[str]
    periods: list[list[int]]


class _Folders(TypedDict):
    template: str
    complete: int | None
    stretches: list[_Stretches]


class _Shape(TypedDict):
    owner: str
    number: int
    seen: _Seen | None
    clean: NotRequired[dict[str, list[int]]]
    rereads: NotRequired[dict[str, int]]
    folders: NotRequired[_Folders]
    listed_ms: NotRequired[int]


_SHAPE = TypeAdapter(_Shape)


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """A snapshot of ``SeenObjects``.

    runs: the names of its runs, in order.
    horizon_ms: objects older than that are not new; None: there is no such limit.
    newest_ms: the greatest LastModified that was seen; None: no object was.
    """

    runs: Sequence[str]
    horizon_ms: int | None
    newest_ms: int | None

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> SeenSnapshot:
        """Read what ``to_json`` returned, once its shape was checked."""
        return cls(state["runs"], state["horizon"], state["newest"])

    def to_json(self) -> Json:
        """Return the JSON."""
        return {"runs": list(self.runs), "horizon": self.horizon_ms, "newest": self.newest_ms}


@dataclass(frozen=True, slots=True)
class S3Snapshot:
    """A snapshot of an S3 enumerator.

    owner: names the query, its part of the state location, and the holder of the lease.
    number: of the last manifest; 0: there is none yet.
    seen: None: no round has ended yet.
    clean: for ``SourceCleaning``; None: the query does not clean.  A query that cleans takes no request to read again.
    rereads: for ``RereadRequests``.
    listed_ms: when the last full listing of a query with notifications began; None: the next round lists all.
    folders: of CompleteFolders; None: there are no markers.
    unknown: keys that another version of tidegate added; they are kept.
    """

    owner: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    number: int = 0
    seen: SeenSnapshot | None = None
    clean: Mapping[SplitId, list[int]] | None = None
    rereads: Mapping[str, int] = field(default_factory=dict)
    listed_ms: int | None = None
    folders: Mapping[str, Any] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, state: Json) -> S3Snapshot:
        """Read what ``to_json`` returned.  Raises CheckpointError if a key is missing or of another type."""
        shape = checked(state, _SHAPE)
        return cls(
            shape["owner"],
            shape["number"],
            None if shape["seen"] is None else SeenSnapshot.from_json(shape["seen"]),
            shape.get(_CLEAN),
            shape.get(_REREADS, {}),
            shape.get(_LISTED),
            shape.get(_FOLDERS),
            {name: value for name, value in shape.items() if name not in _Shape.__annotations__},
        )

    def to_json(self) -> Json:
        """Return the JSON; empty parts are left out."""
        return {
            "owner": self.owner,
            "number": self.number,
            "seen": None if self.seen is None else self.seen.to_json(),
            **self.unknown,
            **({} if self.listed_ms is None else {_LISTED: self.listed_ms}),
            **({} if self.clean is None else {_CLEAN: self.clean}),
            **({_REREADS: self.rereads} if self.rereads else {}),
            **({} if self.folders is None else {_FOLDERS: self.folders}),
        }

    @property
    def runs(self) -> Collection[str]:
        """The files with the objects that were seen."""
        return () if self.seen is None else self.seen.runs
