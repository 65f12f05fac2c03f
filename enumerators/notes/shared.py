"""Notes in a folder that several applications share, on a disk or in a bucket."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

from tidegate.enumerators.contract import Json
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.notes.folder import parsed

_SUFFIX = ".json"
_FORGOTTEN_S = 24 * 3600.0  # a live member renews its note every few seconds


class SharedNotes:
    """The notes of an alignment group in a folder that members on several machines can reach."""

    repeat_s = 1.0  # each note and each look is a request, which takes time and costs money in a bucket

    def __init__(self, location: Folder, group: str, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._folder = location.within(quote(group, safe=""))
        self._wall_clock = wall_clock
        self._has_swept = False

    def write(self, name: str, note: Json) -> None:
        """Write a note, or replace the note of that name; raises ConnectorError if that is not possible."""
        self._folder.write(name + _SUFFIX, json.dumps(note).encode())

    def notes(self) -> Iterator[tuple[str, Json | None]]:
        """Yield all notes by name; None: it is no JSON.

        The first call removes the notes of members that were killed a day ago or earlier.

        Raises ConnectorError if the folder cannot be read.
        """
        for file, info in sorted(self._folder.files().items()):
            if not file.endswith(_SUFFIX):
                continue
            if not self._has_swept and self._wall_clock() - info.written_s > _FORGOTTEN_S:
                self._folder.delete(file)
            elif (stored := self._folder.read(file)) is not None:
                yield file.removesuffix(_SUFFIX), parsed(stored.data)
        self._has_swept = True

    def remove(self, name: str) -> None:
        """Remove a note if it exists."""
        self._folder.delete(name + _SUFFIX)
