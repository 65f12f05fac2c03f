"""Finds markers of folders in a discovery round, and makes sure that nothing in such a folder was missed.

A listing takes time.  It may pass the place of an object before that is written, and come to the marker after it.  So
the folder of a marker is listed once more after the marker was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from tidegate.enumerators.s3.discovery.complete_folders import CompleteFolders
from tidegate.enumerators.s3.state.snapshot import FoldersSnapshot
from tidegate.enumerators.s3.times.markers import FolderMarkers, MarkedFolder
from tidegate.readers.objects.values import S3Object

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
