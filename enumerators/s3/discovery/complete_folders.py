"""Up to what event time the folders are complete, by their markers.

A folder holds the watermark from its first object until its marker.  A folder without any object holds nobody: there
are nights without data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidegate.readers.objects.values import TimeRange

__all__ = ["CompleteFolders"]


class _Stretch(NamedTuple):
    """Periods that follow each other; both ends in ms since the epoch, inclusive."""

    first_ms: int
    last_ms: int
    is_complete: bool


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
        return self.stretches[0].first_ms if self.stretches else None

    def is_known(self, period: TimeRange) -> bool:
        """Tell whether the folder of a period is complete, or so old that a marker changes nothing."""
        if self.complete_ms is not None and period.max_ms <= self.complete_ms:
            return True
        return any(s.is_complete and s.first_ms <= period.min_ms and period.max_ms <= s.last_ms for s in self.stretches)

    def with_object(self, period: TimeRange) -> CompleteFolders:
        """Return it after an object was found in a folder.  One in a folder that is complete is late, and ignored."""
        is_new = not any(s.first_ms <= period.min_ms and period.max_ms <= s.last_ms for s in self.stretches)
        if not is_new or self.is_known(period):
            return self
        return self._with(_Stretch(period.min_ms, period.max_ms, is_complete=False))

    def with_marker(self, period: TimeRange) -> CompleteFolders:
        """Return it after the marker of a folder was found, and all its objects."""
        if self.is_known(period):
            return self
        marked = self._with(_Stretch(period.min_ms, period.max_ms, is_complete=True))
        complete_ms, left = marked.complete_ms, marked.stretches
        while left and left[0].is_complete:
            complete_ms, left = left[0].last_ms, left[1:]
        return replace(marked, complete_ms=complete_ms, stretches=left)

    def _with(self, new: _Stretch) -> CompleteFolders:
        pieces = [new]
        for old in self.stretches:
            before = old._replace(last_ms=min(old.last_ms, new.first_ms - 1))
            after = old._replace(first_ms=max(old.first_ms, new.last_ms + 1))
            pieces += [piece for piece in (before, after) if piece.first_ms <= piece.last_ms]
        merged: list[_Stretch] = []
        for piece in sorted(set(pieces)):
            last = merged[-1] if merged else None
            if last and last.is_complete == piece.is_complete and piece.first_ms <= last.last_ms + 1:
                merged[-1] = last._replace(last_ms=max(last.last_ms, piece.last_ms))
            else:
                merged.append(piece)
        return replace(self, stretches=tuple(merged))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, which stands in each offset."""
        return {
            "template": self.template,
            "complete": self.complete_ms,
            "stretches": [[s.first_ms, s.last_ms, int(s.is_complete)] for s in self.stretches],
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any] | None, template: str) -> CompleteFolders:
        """Read what ``to_json`` returned.  Folders that were known by another template hold nobody any more."""
        if state is None:
            return cls(template)
        stretches = [
            _Stretch(first_ms, last_ms, bool(is_complete)) for first_ms, last_ms, is_complete in state["stretches"]
        ]
        return cls(template, state["complete"], tuple(stretches) if state["template"] == template else ())
