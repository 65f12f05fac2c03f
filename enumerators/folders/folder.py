"""A folder of files that outlives the query, and that several processes may share.

A file exists as a whole or not at all.  Its *version* changes with its content.  A file can be created or replaced on a
condition about its version, which makes a lease possible.

A local folder is on a disk of this machine, or on one that several machines share.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from tidegate.errors import ConnectorError


class Stored(NamedTuple):
    """A file that was read, and the version for ``replace``, which changes with the content."""

    data: bytes
    version: str


class FileInfo(NamedTuple):
    """A file in the listing of a folder, and when it was written, in seconds since the epoch."""

    bytes: int
    written_s: float


class Folder(ABC):
    """A folder of files; names contain no ``/`` and do not begin with a dot.

    noun: what errors call the folder, such as ``state location``.

    All methods raise ConnectorError if the folder cannot be reached or used, and DeadlineError if it does not answer in
    time.  They raise OptionError if its bucket does not exist.  Thread-safe.
    """

    address: str
    noun: str

    @abstractmethod
    def within(self, name: str) -> Folder:
        """Return a folder inside this one; it is not among the files."""

    @abstractmethod
    def read(self, name: str) -> Stored | None:
        """Return a file."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> str | None:
        """Write a new file, and return its version; None: the file exists already."""

    @abstractmethod
    def replace(self, name: str, data: bytes, version: str) -> str | None:
        """Replace one version of a file, and return the new version; None: the file has another version, or is gone."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a file, whether or not it exists."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file if it exists."""

    @abstractmethod
    def files(self) -> dict[str, FileInfo]:
        """Return the files, keyed by name."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of the folders inside this one."""


_ATTEMPTS = 3


class LocalFolder(Folder):
    """A folder on a disk, accessible to this user only; created by the first write."""

    is_durable = True  # a file is on the disk once it is written

    def __init__(self, path: Path, noun: str) -> None:
        self._path, self.noun = path, noun
        self.address = str(path)

    @override
    def within(self, name: str) -> Folder:
        return type(self)(self._path / name, self.noun)

    @override
    def read(self, name: str) -> Stored | None:
        with self._mapped_errors("read"):
            try:
                data = (self._path / name).read_bytes()
            except FileNotFoundError:
                return None
            return Stored(data, _digest(data))

    @override
    def create(self, name: str, data: bytes) -> str | None:
        with self._mapped_errors("write to"), self._written(data) as partial:
            try:
                os.link(partial, self._path / name)
            except FileExistsError:
                return None
            self._make_durable()
            return _digest(data)

    @override
    def replace(self, name: str, data: bytes, version: str) -> str | None:
        with self._mapped_errors("write to"), self._written(data) as partial, self._locked():
            stored = self.read(name)
            if stored is None or stored.version != version:
                return None
            partial.replace(self._path / name)
            self._make_durable()
            return _digest(data)

    @override
    def write(self, name: str, data: bytes) -> None:
        with self._mapped_errors("write to"), self._written(data) as partial:
            partial.replace(self._path / name)
            self._make_durable()

    @override
    def delete(self, name: str) -> None:
        with self._mapped_errors("write to"):
            (self._path / name).unlink(missing_ok=True)

    @override
    def files(self) -> dict[str, FileInfo]:
        files = {}
        with self._mapped_errors("read"):
            for entry in self._entries():
                if entry.is_file():
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        files[entry.name] = FileInfo(status.st_size, status.st_mtime)
        return files

    @override
    def folders(self) -> list[str]:
        return sorted(entry.name for entry in self._entries() if entry.is_dir(follow_symlinks=False))

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        with self._mapped_errors("read"), suppress(FileNotFoundError), os.scandir(self._path) as entries:
            yield from (entry for entry in entries if not entry.name.startswith("."))

    @contextlib.contextmanager
    def _written(self, data: bytes) -> Iterator[Path]:
        """Yield a durable file with the data, under a hidden name."""
        handle, partial = self._new_file()
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                if self.is_durable:
                    file.flush()
                    os.fsync(file.fileno())
            yield Path(partial)
        finally:
            Path(partial).unlink(missing_ok=True)

    def _new_file(self) -> tuple[int, str]:
        for _ in range(_ATTEMPTS - 1):
            # The empty folder was removed in between, perhaps by the time that mkdir had found it.
            with suppress(FileNotFoundError, FileExistsError):
                return self._attempted_file()
        return self._attempted_file()

    def _attempted_file(self) -> tuple[int, str]:
        make_private(self._path)
        return tempfile.mkstemp(prefix=".", dir=self._path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock out other writers, even in this process; the lock of a killed process is released."""
        handle = os.open(self._path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _make_durable(self) -> None:
        if not self.is_durable:
            return
        handle = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _mapped_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise ConnectorError(
                f"cannot {operation} the {self.noun} {self.address}: {self._reason(problem)}"
            ) from problem

    def _reason(self, problem: OSError) -> str:
        # The system names the path in the file, or says only that the file exists.
        if isinstance(problem, NotADirectoryError | FileExistsError):
            for place in (self._path, *self._path.parents):
                if os.path.lexists(place) and not place.is_dir():
                    return f"{place} is not a folder"
        return str(problem)


def make_private(folder: Path) -> None:
    """Create a folder, and its missing parents, accessible to this user only."""
    if not folder.exists():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
