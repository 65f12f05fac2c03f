"""Folders that markers call complete: the event time up to which they are, and the markers that a round finds.

A folder holds back the watermark from its first object until its marker.  A folder without objects does not, because
there are nights without data.

A listing takes time.  It may pass the place of an object before that is written, and come to the marker after it.  So
the folder of a marker is listed once more after the marker was seen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from typing_extensions import TypedDict

from tidegate.enumerators.s3.times.origin import FolderMarkers, MarkedFolder
from tidegate.readers.objects.values import S3Object


class _Stretch(NamedTuple):
    """Folders of one root whose periods follow each other; both ends in ms since the epoch, inclusive."""

    first_ms: int
    last_ms: int
    is_complete: bool


_Stretches: TypeAlias = tuple[_Stretch, ...]

_FIRST_MS, _LAST_MS = attrgetter("first_ms"), attrgetter("last_ms")


class _StoredStretches(TypedDict):
    roots: list[str]
    periods: list[list[int]]


class FoldersSnapshot(TypedDict):
    """A snapshot of ``CompleteFolders``."""

    template: str
    complete: int | None
    stretches: list[_StoredStretches]


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


_SETTLED_MS = 900_000  # S3 refuses requests whose clock is further from its own (RequestTimeTooSkewed)


class MarkedFolders:
    """The folders of a query that are complete, from round to round.

    pages: lists what lies below a folder, whose key ends in ``/``.

    known: an attribute: up to where they are complete.  Only ``end_round`` changes it, so a round that fails changes
        nothing.
    """

    def __init__(self, markers: FolderMarkers, pages: Callable[[str], Generator[Sequence[S3Object]]]) -> None:
        self._markers, self.pages = markers, pages
        self.known = self._found = CompleteFolders(markers.template)
        self._settled_ms: int | None = None
        self._marked: dict[str, tuple[MarkedFolder, bool]] = {}  # by the key of the folder; and whether it is settled
        self._takes_markers = True

    def restore(self, state: FoldersSnapshot | None) -> None:
        """Go on from the JSON of ``known`` in a stored offset."""
        self.known = CompleteFolders.from_json(state, self._markers.template)

    def begin_round(self, begun_ms: int, *, lists: bool) -> None:
        """Begin a round by this machine's clock.  A listing has all that was modified some time before it."""
        self._settled_ms = begun_ms - _SETTLED_MS if lists else None
        self._found, self._marked, self._takes_markers = self.known, {}, True

    def without_markers(self, page: Sequence[S3Object]) -> list[S3Object]:
        """Return the objects of a page that are data, and remember the markers."""
        data = [obj for obj in page if not self._markers.are(obj.key)]
        if self._takes_markers and len(data) < len(page):
            for marker in set(page) - set(data):
                folder = self._markers.folder_of(marker.key)
                if folder is not None and not self._found.is_known(folder):
                    is_settled = self._settled_ms is not None and marker.modified_ms <= self._settled_ms
                    self._marked[marker.key[: marker.key.rindex("/") + 1]] = folder, is_settled
        return data

    def add(self, objects: Iterable[S3Object]) -> None:
        """Learn of new objects, whose folders are not complete before their markers."""
        folders = (self._markers.folder_of(obj.key) for obj in objects)
        self._found = self._found.with_objects(folder for folder in folders if folder is not None)

    def unsettled(self) -> Iterator[str]:
        """Yield the folders with markers that have to be listed once more; markers found later wait for a round."""
        self._takes_markers = False
        for folder, (_, is_settled) in self._marked.items():
            if not is_settled:
                yield folder

    def end_round(self) -> None:
        """Learn the markers of a round.  Called only for a round that ended well."""
        self.known = self._found.with_markers(folder for folder, _ in self._marked.values())
