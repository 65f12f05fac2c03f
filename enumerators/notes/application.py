"""The notes of a Spark application, in a private folder of this user.

All planners of an application run on the driver's machine.  Other users cannot read their notes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from typing_extensions import override

from tidegate.enumerators.folders.contract import Stored
from tidegate.enumerators.folders.local import LocalFolder, make_private
from tidegate.enumerators.notes.folder import FORGOTTEN_S, NoteFolder


def application_notes(application_id: str) -> NoteFolder:
    """Return the folder that all planners of a Spark application share, created with the first note."""
    return NoteFolder(_PrivateFolder(_root(), "planner's folder")).within(application_id)


def applications() -> dict[str, NoteFolder]:
    """Return the folders of this user's applications on this machine; removes those that were unused for a day."""
    return {name: application_notes(name) for name in _last_touched()}


def others_with(own_id: str, *names: str, within_s: float) -> list[str]:
    """Return the other applications on this machine that recently wrote to their folder of this name."""
    touched = _last_touched(*names).items()
    return [name for name, touched_s in touched if name != own_id and time.time() - touched_s <= within_s]


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


def _last_touched(*names: str) -> dict[str, float]:
    """Return when each application last wrote to its folder, or to one inside; notes come and go meanwhile."""
    touched_s = {}
    for path in sorted(_root().glob("*")) if _is_private() else ():
        if time.time() - _touched(path) > FORGOTTEN_S:
            shutil.rmtree(path, ignore_errors=True)
        else:
            touched_s[unquote(path.name)] = _touched(path.joinpath(*(quote(name, safe="") for name in names)))
    return touched_s


def _touched(folder: Path) -> float:
    touched_s = 0.0
    for path in [folder, *folder.rglob("*")]:
        with suppress(OSError):
            touched_s = max(touched_s, path.lstat().st_mtime)
    return touched_s


def _root() -> Path:
    return Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"


def _is_private() -> bool:
    """Return whether the root is a folder of this user, and no link, that is closed to all others."""
    try:
        status = _root().lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
