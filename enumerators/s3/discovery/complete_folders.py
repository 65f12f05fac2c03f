"""Up to what event time the folders are complete, by their markers.

A folder holds the watermark from its first object until its marker.  A folder without any object holds nobody: there
are nights without data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidegate.enumerators.s3.times.markers import Folder

__all__ = ["CompleteFolders"]

_ANY_ROOT = "*"  # of folders in offsets that do not tell it


class _Stretch(NamedTuple):
    """Folders of one root whose periods follow each other; both ends in ms since the epoch, inclusive."""

    first_ms: int
    last_ms: int
    is_complete: bool
    root: str


@dataclass(frozen=True, slots=True)
class CompleteFolders:
    """The knowledge of the folders; immutable.

    template: of the markers by which it is known.
    complete_ms: no folder up to this event time has objects, but no marker; None: there was no marker yet.
    stretches: of later folders that have objects or a marker, in order.
    """

    template: str
    complete_ms: int | None = None
    stretches: tuple[_Stretch, ...] = ()

    @property
    def holding_ms(self) -> int | None:
        """The first event time of the folder that holds the watermark, because it has no marker; None: none does."""
        return min((s.first_ms for s in self.stretches if not s.is_complete), default=None)

    def is_known(self, folder: Folder) -> bool:
        """Tell whether a folder is complete, or so old that a marker changes nothing."""
        if self.complete_ms is not None and folder.period.max_ms <= self.complete_ms:
            return True
        return any(s.is_complete and _holds(s, folder) for s in self.stretches)

    def with_object(self, folder: Folder) -> CompleteFolders:
        """Return it after an object was found in a folder.  One in a folder that is complete is late, and ignored."""
        if any(_holds(s, folder) for s in self.stretches) or self.is_known(folder):
            return self
        return self._with(folder, is_complete=False)

    def with_marker(self, folder: Folder) -> CompleteFolders:
        """Return it after the marker of a folder was found, and all its objects."""
        if self.is_known(folder):
            return self
        marked = self._with(folder, is_complete=True)
        holding_ms, complete_ms, left = marked.holding_ms, marked.complete_ms, []
        for s in marked.stretches:
            if s.is_complete and (holding_ms is None or s.first_ms < holding_ms):
                reached_ms = s.last_ms if holding_ms is None else min(s.last_ms, holding_ms - 1)
                complete_ms = reached_ms if complete_ms is None else max(reached_ms, complete_ms)
                s = s._replace(first_ms=reached_ms + 1)  # noqa: PLW2901 - what is left of it
            if s.first_ms <= s.last_ms:
                left.append(s)
        return replace(marked, complete_ms=complete_ms, stretches=tuple(left))

    def _with(self, folder: Folder, *, is_complete: bool) -> CompleteFolders:
        new = _Stretch(folder.period.min_ms, folder.period.max_ms, is_complete, folder.root)
        pieces = [new]
        for old in self.stretches:
            if old.root not in {new.root, _ANY_ROOT}:
                pieces.append(old)
                continue
            before = old._replace(last_ms=min(old.last_ms, new.first_ms - 1))
            after = old._replace(first_ms=max(old.first_ms, new.last_ms + 1))
            pieces += [piece for piece in (before, after) if piece.first_ms <= piece.last_ms]
        merged: list[_Stretch] = []
        for piece in sorted(set(pieces), key=lambda piece: (piece.root, piece)):
            last = merged[-1] if merged else None
            is_same = last is not None and (last.root, last.is_complete) == (piece.root, piece.is_complete)
            if last is not None and is_same and piece.first_ms <= last.last_ms + 1:
                merged[-1] = last._replace(last_ms=max(last.last_ms, piece.last_ms))
            else:
                merged.append(piece)
        return replace(self, stretches=tuple(sorted(merged)))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, which stands in each offset."""
        roots: dict[str, list[list[int]]] = {}
        for s in self.stretches:
            roots.setdefault(s.root, []).append([s.first_ms, s.last_ms, int(s.is_complete)])
        return {"template": self.template, "complete": self.complete_ms, "stretches": roots}

    @classmethod
    def from_json(cls, state: Mapping[str, Any] | None, template: str) -> CompleteFolders:
        """Read what ``to_json`` returned.  Folders that were known by another template hold nobody any more."""
        if state is None:
            return cls(template)
        stored = state["stretches"]
        roots: Mapping[str, Any] = stored if isinstance(stored, Mapping) else {_ANY_ROOT: stored}
        stretches = sorted(
            _Stretch(first_ms, last_ms, bool(is_complete), root)
            for root, of_root in roots.items()
            for first_ms, last_ms, is_complete in of_root
        )
        return cls(template, state["complete"], tuple(stretches) if state["template"] == template else ())


def _holds(stretch: _Stretch, folder: Folder) -> bool:
    period = folder.period
    is_of_root = stretch.root in {folder.root, _ANY_ROOT}
    return is_of_root and stretch.first_ms <= period.min_ms and period.max_ms <= stretch.last_ms
