"""The event time up to which folders are complete, by their markers.

A folder holds back the watermark from its first object until its marker.  A folder without objects does not, because
there are nights without data.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from tidegate.enumerators.s3.state.snapshot import FoldersSnapshot
from tidegate.enumerators.s3.times.markers import MarkedFolder


class _Stretch(NamedTuple):
    """Folders of one root whose periods follow each other; both ends in ms since the epoch, inclusive."""

    first_ms: int
    last_ms: int
    is_complete: bool


_Stretches: TypeAlias = tuple[_Stretch, ...]

_FIRST_MS, _LAST_MS = attrgetter("first_ms"), attrgetter("last_ms")


@dataclass(frozen=True, slots=True)
class CompleteFolders:
    """The knowledge about folders; immutable.

    complete_ms: no folder up to this event time has objects without a marker.
    stretches: the later folders that have objects or a marker, by root, in order and without overlap.
    """

    template: str
    complete_ms: int | None = None
    stretches: Mapping[str, _Stretches] = field(default_factory=dict)

    @property
    def holding_ms(self) -> int | None:
        """The first event time of the folder that holds back the watermark for want of a marker."""
        stretches = (stretch for of_root in self.stretches.values() for stretch in of_root)
        return min((s.first_ms for s in stretches if not s.is_complete), default=None)

    def is_known(self, folder: MarkedFolder) -> bool:
        """Return whether a folder is complete, or so old that a marker changes nothing."""
        if self.complete_ms is not None and folder.period.max_ms <= self.complete_ms:
            return True
        stretch = self._stretch_of(folder)
        return stretch is not None and stretch.is_complete

    def with_objects(self, folders: Iterable[MarkedFolder]) -> CompleteFolders:
        """Return the knowledge after objects were found in folders; late objects, in complete folders, are ignored."""
        new = (folder for folder in set(folders) if not self.is_known(folder) and self._stretch_of(folder) is None)
        return self._with(new, is_complete=False)

    def with_markers(self, folders: Iterable[MarkedFolder]) -> CompleteFolders:
        """Return the knowledge after the markers of folders were found, with all objects in these folders."""
        marked = self._with((folder for folder in set(folders) if not self.is_known(folder)), is_complete=True)
        holding_ms = marked.holding_ms
        reached = [] if marked.complete_ms is None else [marked.complete_ms]
        for of_root in marked.stretches.values():
            if holding_ms is None:
                reached.append(of_root[-1].last_ms)
            else:
                reached += [min(s.last_ms, holding_ms - 1) for s in of_root if s.first_ms < holding_ms]
        if not reached:
            return marked
        complete_ms = max(reached)
        later = {root: _after(complete_ms, of_root) for root, of_root in marked.stretches.items()}
        left = {root: of_root for root, of_root in later.items() if of_root}
        return replace(marked, complete_ms=complete_ms, stretches=left)

    def _stretch_of(self, folder: MarkedFolder) -> _Stretch | None:
        of_root = self.stretches.get(folder.root, ())
        at = bisect_left(of_root, folder.period.max_ms, key=_LAST_MS)
        return of_root[at] if at < len(of_root) and of_root[at].first_ms <= folder.period.min_ms else None

    def _with(self, folders: Iterable[MarkedFolder], *, is_complete: bool) -> CompleteFolders:
        changed: dict[str, _Stretches] = {}
        for root, period in sorted(folders):
            of_root = changed.get(root) or self.stretches.get(root, ())
            changed[root] = _with_stretch(of_root, _Stretch(*period, is_complete))
        return replace(self, stretches={**self.stretches, **changed}) if changed else self

    def to_json(self) -> FoldersSnapshot:
        """Return it as JSON for each offset; roots with the same stretches share an entry."""
        roots: dict[_Stretches, list[str]] = {}
        for root, of_root in sorted(self.stretches.items()):
            roots.setdefault(of_root, []).append(root)
        return {
            "template": self.template,
            "complete": self.complete_ms,
            "stretches": [
                {"roots": alike, "periods": [[s.first_ms, s.last_ms, int(s.is_complete)] for s in of_root]}
                for of_root, alike in roots.items()
            ],
        }

    @classmethod
    def from_json(cls, state: FoldersSnapshot | None, template: str) -> CompleteFolders:
        """Read what ``to_json`` returned.  Folders known by another template no longer hold back the watermark."""
        if state is None:
            return cls(template)
        if state["template"] != template:
            return cls(template, state["complete"])
        stretches = {
            root: tuple(_Stretch(first_ms, last_ms, bool(is_complete)) for first_ms, last_ms, is_complete in periods)
            for roots, periods in ((alike["roots"], alike["periods"]) for alike in state["stretches"])
            for root in roots
        }
        return cls(template, state["complete"], stretches)


def _with_stretch(of_root: _Stretches, new: _Stretch) -> _Stretches:
    """Return stretches with one more, which replaces those that it covers and joins neighbours of its kind."""
    start = bisect_left(of_root, new.first_ms - 1, key=_LAST_MS)
    end = bisect_right(of_root, new.last_ms + 1, lo=start, key=_FIRST_MS)
    near, others = [new], []
    for old in of_root[start:end]:
        if old.is_complete == new.is_complete:
            near.append(old)
        else:
            others.append(old._replace(last_ms=min(old.last_ms, new.first_ms - 1)))
            others.append(old._replace(first_ms=max(old.first_ms, new.last_ms + 1)))
    joined = new._replace(first_ms=min(map(_FIRST_MS, near)), last_ms=max(map(_LAST_MS, near)))
    pieces = [joined, *(piece for piece in others if piece.first_ms <= piece.last_ms)]
    return (*of_root[:start], *sorted(pieces), *of_root[end:])


def _after(complete_ms: int, of_root: _Stretches) -> _Stretches:
    """Return the parts of complete stretches after a time, and the stretches that are not complete."""
    cut = (s._replace(first_ms=max(s.first_ms, complete_ms + 1)) if s.is_complete else s for s in of_root)
    return tuple(s for s in cut if s.first_ms <= s.last_ms)
