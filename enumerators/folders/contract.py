"""A folder of files that outlives the query, and that several processes may share.

A file exists as a whole or not at all.  Its *version* changes with its content.  A file can be created or replaced on a
condition about its version, which makes a lease possible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


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
