"""The notes of a Spark application, in a private folder of this user.

All planners of an application run on the driver's machine.  Other users cannot read their notes.

Each planner also notes how many bad records there are after its last batch: an offset counts those of the batches
before its own, so no offset has those of a run's last batch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote

from typing_extensions import override

from tidegate.enumerators.contract import Json
from tidegate.enumerators.folders.folder import LocalFolder, Stored, make_private
from tidegate.enumerators.notes.folder import FORGOTTEN_S, NoteFolder, folder_name
from tidegate.errors import ConnectorError
from tidegate.readers.events.event import BAD_RECORDS, SourceEvent


def application_notes(application_id: str) -> NoteFolder:
    """Return the folder that all planners of a Spark application share, created with the first note."""
    return NoteFolder(_PrivateFolder(_root(), "planner's folder")).within(application_id)


def applications(*names: str) -> dict[str, NoteFolder]:
    """Return the folders of this user's applications on this machine that have a folder of this name inside."""
    return {name: application_notes(name) for name in _folders(*names)}


def others_with(own_id: str, *names: str, within_s: float) -> list[str]:
    """Return the other applications on this machine that recently wrote to their folder of this name."""
    return [name for name, path in _folders(*names).items() if name != own_id and _unused_s(path) <= within_s]


def remove_forgotten() -> None:
    """Remove the notes of all applications that wrote none for a day."""
    for path in _folders().values():
        if _unused_s(path) > FORGOTTEN_S:
            shutil.rmtree(path, ignore_errors=True)  # another application may also remove them


class _PrivateFolder(LocalFolder):
    """A folder below the root, which is gone with its last file.

    While others may enter the root, nothing can be written, and nothing is read.
    """

    is_durable = False

    @override
    def read(self, name: str) -> Stored | None:
        return super().read(name) if _is_private() else None

    @override
    def delete(self, name: str) -> None:
        if not _is_private():
            return
        super().delete(name)
        folder = self._path
        with suppress(OSError):
            while _root() in folder.parents:
                folder.rmdir()
                folder = folder.parent

    @override
    def _entries(self) -> Iterator[os.DirEntry[str]]:
        return super()._entries() if _is_private() else iter(())

    @override
    @contextlib.contextmanager
    def _written(self, data: bytes) -> Iterator[Path]:
        make_private(_root())
        if not _is_private():
            raise PermissionError(f"{_root()} belongs to another user, or others may enter it")
        with super()._written(data) as partial:
            yield partial


def _folders(*names: str) -> dict[str, Path]:
    """Return the folder of this name, or names inside each other, of each application that has one."""
    inside = [folder_name(name) for name in names]
    paths = {path.name: path.joinpath(*inside) for path in sorted(_root().glob("*"))} if _is_private() else {}
    return {unquote(name): path for name, path in paths.items() if path.is_dir()}


def _unused_s(folder: Path) -> float:
    """Return how many seconds ago something was last written in a folder; notes come and go meanwhile."""
    touched_s = 0.0
    for path in [folder, *folder.rglob("*")]:
        with suppress(OSError):
            touched_s = max(touched_s, path.lstat().st_mtime)
    return time.time() - touched_s


def _root() -> Path:
    return Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"


def _is_private() -> bool:
    """Return whether the root is a folder of this user, and no link, that is closed to all others."""
    try:
        status = _root().lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


_LOG = logging.getLogger("tidegate.planner")
_NAME = "badRecords"


class BadRecordNote:
    """The number of bad records after the batch that is being read, and after the one before it, by their offsets.

    A query needs no note, so nothing here fails.  Thread-safe.
    """

    def __init__(self, planner_id: str) -> None:
        self._notes = _notes(planner_id)
        self._lock = Lock()
        self._totals: dict[str, int] = {}
        self._end = ""
        self._heard: set[tuple[str, int]] = set()

    def begin(self, start: Json, end: Json, total: int) -> None:
        """Note that a batch begins, perhaps once more, and how many bad records there were before it."""
        with self._lock:
            if self._end != (digest := offset_digest(end)):
                self._end, self._heard = digest, set()
                self._totals = {offset_digest(start): total, digest: total}
                self._write()

    def add(self, events: Collection[SourceEvent]) -> None:
        """Count the bad records of ranges of the batch, each once."""
        with self._lock:
            new = {(e.split_id, e.start): int(e.report["number"]) for e in events if e.about == BAD_RECORDS}
            new = {place: number for place, number in new.items() if place not in self._heard}
            if new and self._end:
                self._heard |= new.keys()
                self._totals[self._end] += sum(new.values())
                self._write()

    def _write(self) -> None:
        try:
            self._notes.write(_NAME, self._totals)
        except ConnectorError as error:
            with suppress(ConnectorError):
                self._notes.remove(_NAME)
            _LOG.warning("accounts of this run do not know the bad records of its last batch: %s", error)


def bad_records_noted(planner_id: str) -> Json:
    """Return how many bad records a query had after the last batches of a planner, by ``offset_digest`` of their ends.

    It is empty if the planner ran on another machine, or more than a day ago.
    """
    return _notes(planner_id).read(_NAME) or {}


def offset_digest(offset: Any) -> str:
    """Return a digest of an offset, which names its batch in notes."""
    return hashlib.sha256(json.dumps(offset, sort_keys=True).encode()).hexdigest()[:16]


def _notes(planner_id: str) -> NoteFolder:
    return application_notes(planner_id).within(_NAME)
