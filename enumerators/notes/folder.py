"""Notes of planners for each other: JSON in a folder, of one application or of several.

This is soft state: planners work without it if it is gone or old.  Only a group must know that it cannot see a member,
because the member may hold it back: its look at all notes fails if one of them cannot be reached.

Every planner writes its last progress, which ``tidegate watch`` reads without asking Spark.
"""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote

from tidegate.enumerators.contract import Json
from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.process_identity import this_process
from tidegate.errors import ConnectorError

_SUFFIX = ".json"
FORGOTTEN_S = 24 * 3600.0
_SWEPT_S = 8 * FORGOTTEN_S  # a member of a group may run once a week


def folder_name(name: str) -> str:
    """Return the name of the folder for a name that may hold any characters, and that ``unquote`` gives back."""
    quoted = quote(name, safe="")
    # quote() leaves dots as they are; they would lead out of the folder, or hide it.
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


class NoteFolder:
    """A folder of notes, which are written as a whole or not at all.

    repeat_s: how many seconds an unchanged note is not written again, and how long the notes that were read stay valid.
        In a bucket each note and each look is a request, which takes time and costs money.

    All methods but ``read`` raise ConnectorError if the folder cannot be reached or used.
    """

    def __init__(self, folder: Folder, repeat_s: float = 0.0, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._folder, self.repeat_s, self._wall_clock = folder, repeat_s, wall_clock

    def within(self, *names: str) -> NoteFolder:
        """Return a folder inside this one."""
        folder = self._folder
        for name in names:
            folder = folder.within(folder_name(name))
        return NoteFolder(folder, self.repeat_s, wall_clock=self._wall_clock)

    def write(self, name: str, note: Json) -> None:
        """Write a note, or replace the note of that name."""
        self._folder.write(name + _SUFFIX, json.dumps(note).encode())

    def read(self, name: str) -> Json | None:
        """Return a note, or None if it is missing, not JSON, or cannot be reached."""
        with suppress(ConnectorError):
            stored = self._folder.read(name + _SUFFIX)
            return None if stored is None else parsed(stored.data)
        return None

    @property
    def place(self) -> str:
        """What errors call the folder."""
        return f"the {self._folder.noun} {self._folder.address}"

    def names(self) -> list[str]:
        """Return the names of all notes."""
        return sorted(file.removesuffix(_SUFFIX) for file in self._folder.files() if file.endswith(_SUFFIX))

    def notes(self) -> Iterator[tuple[str, Json | None]]:
        """Yield all notes by name; None: it is not JSON."""
        for name in self.names():
            if (stored := self._folder.read(name + _SUFFIX)) is not None:
                yield name, parsed(stored.data)

    def sweep(self) -> None:
        """Remove the notes that were not renewed for eight days."""
        for file, info in self._folder.files().items():
            if file.endswith(_SUFFIX) and self._wall_clock() - info.written_s > _SWEPT_S:
                self._folder.delete(file)

    def remove(self, name: str) -> None:
        """Remove a note if it exists."""
        self._folder.delete(name + _SUFFIX)


def parsed(data: bytes | str) -> Json | None:
    """Return a note from its text, or None if it is not a JSON object, or is nested too deeply."""
    try:
        note = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None


_LOG = logging.getLogger("tidegate.planner")
PROGRESS = "progress"
_INTERVAL_S = 0.5


class ProgressNote:
    """The note of one planner.

    It is ``{"source", "reads", "pid", "process", "started", "updated", "progress"}``; times in wall-clock ms.

    reads: the topics or the path, for display; without secrets.
    """

    def __init__(self, application: NoteFolder, source: str, reads: str) -> None:
        self.planner_id = uuid.uuid4().hex[:12]
        self._folder = application.within(PROGRESS)
        self._about = {
            "source": source,
            "reads": reads,
            "pid": os.getpid(),
            "process": this_process(),
            "started": _now_ms(),
        }
        self._written_at = float("-inf")
        self._broken = False

    def write(self, progress: Json | None) -> None:
        """Write the progress, unless it was written a moment ago.  Never fails, because a query does not need it."""
        now = time.monotonic()
        if progress is None or self._broken or now - self._written_at < _INTERVAL_S:
            return
        self._written_at = now
        try:
            self._folder.write(self.planner_id, {**self._about, "updated": _now_ms(), "progress": progress})
        except ConnectorError as error:
            self._broken = True
            _LOG.warning("tidegate watch will not show this query: %s", error)

    def remove(self) -> None:
        """Remove the note at the end of the run.  Never fails, either."""
        with suppress(ConnectorError):
            self._folder.remove(self.planner_id)


def _now_ms() -> int:
    return int(time.time() * 1000)
