"""A private folder of this user where the planners of one Spark application leave notes for each other.

This is soft state: it lives as long as the application, and planners work without it if it is gone or old.  Other users
cannot read it, and a note is written as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from tidegate.enumerators.contract import Json
from tidegate.errors import ConnectorError

_ATTEMPTS = 3
_FORGOTTEN_S = 24 * 3600.0  # a planner touches its notes every few seconds


class NoteFolder:
    """A private folder of JSON notes, created with the first note."""

    repeat_s = 0.0

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_application(cls, application_id: str) -> NoteFolder:
        """Return the folder that all planners of a Spark application share; they run on the driver's machine."""
        return cls(_root() / quote(application_id, safe=""))

    def within(self, *names: str) -> NoteFolder:
        """Return a folder inside this one."""
        return NoteFolder(self.path.joinpath(*(quote(name, safe="") for name in names)))

    def used_by_others(self, within_s: float) -> list[str]:
        """Return the other applications on this machine that recently wrote to their folder of this name."""
        own, *names = self.path.relative_to(_root()).parts
        peers = [(other.path.name, other.path.joinpath(*names)) for other in applications() if other.path.name != own]
        return [unquote(name) for name, folder in peers if time.time() - _last_touched(folder) <= within_s]

    def write(self, name: str, note: Json) -> None:
        """Write a note, or replace the note of that name.

        Raises ConnectorError if the folder belongs to another user, or cannot be written to.
        """
        partial = self.path / f".{name}.{os.getpid()}"
        try:
            for attempt in range(_ATTEMPTS):
                _root().mkdir(mode=0o700, exist_ok=True)
                _require_private(_root())
                try:
                    self._make()
                    _write_private(partial, json.dumps(note))
                    partial.replace(self.path / f"{name}.json")
                except (FileNotFoundError, FileExistsError):
                    # Another planner ended in between, and removed the empty folder.
                    if attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return
        except OSError as error:
            raise ConnectorError(f"the planner cannot write to its folder {self.path}: {error}") from error

    def read(self, name: str) -> Json | None:
        """Return a note; None: this user has no note of that name."""
        with suppress(OSError):
            return parsed((self.path / f"{name}.json").read_bytes()) if _is_private() else None
        return None

    def notes(self) -> Iterator[tuple[str, Json | None]]:
        """Yield all notes by name; None: it is no JSON."""
        for path in sorted(self.path.glob("*.json")) if _is_private() else ():
            with suppress(OSError):  # it was removed meanwhile
                yield path.stem, parsed(path.read_bytes())

    def remove(self, name: str) -> None:
        """Remove a note if it exists, and then empty folders, but not the root."""
        if not _is_private():
            return
        (self.path / f"{name}.json").unlink(missing_ok=True)
        folder = self.path
        with suppress(OSError):
            while _root() in folder.parents:
                folder.rmdir()
                folder = folder.parent

    def _make(self) -> None:
        """Create the folder and its parents; ``mkdir(parents=True)`` sets the mode only of the last one."""
        for folder in (*reversed(self.path.parents), self.path):
            if _root() in folder.parents:
                folder.mkdir(mode=0o700, exist_ok=True)


def parsed(data: bytes) -> Json | None:
    """Return a note from its text; None: it is no JSON object."""
    try:
        note = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None


def applications() -> list[NoteFolder]:
    """Return the folders of this user's applications on this machine; removes those that were unused for a day."""
    folders = []
    for path in sorted(_root().glob("*")) if _is_private() else ():
        if time.time() - _last_touched(path) > _FORGOTTEN_S:
            shutil.rmtree(path, ignore_errors=True)
        else:
            folders.append(NoteFolder(path))
    return folders


def _write_private(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)


def _last_touched(folder: Path) -> float:
    """Return when a folder's content was last written; notes come and go meanwhile."""
    touched = 0.0
    for path in [folder, *folder.rglob("*")]:
        with suppress(OSError):
            touched = max(touched, path.lstat().st_mtime)
    return touched


def _root() -> Path:
    return Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"


def _require_private(root: Path) -> None:
    """Raise PermissionError unless the folder belongs to this user, is not a link, and is closed to all others."""
    status = root.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{root} belongs to another user, or others may enter it")


def _is_private() -> bool:
    try:
        _require_private(_root())
    except OSError:
        return False
    return True
