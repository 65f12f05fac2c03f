"""The ledger of queries: files that never change, and are named by the offsets in their checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from copy import copy
from typing import NamedTuple

from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.errors import CheckpointError, ConnectorError, ContractError
from tidegate.readers.s3.config import S3ConnectionConfig

FOLDER = "ledger"  # a separate folder, so that all files in it are ours to delete


class QueryFiles(NamedTuple):
    """The size of a query's files, and when the last one was written, in seconds since the epoch."""

    files: int
    bytes: int
    written_s: float | None


class Ledger:
    """A folder of files that are written once, in ``stateLocation``; opens nothing before it is first used.

    location: a path, a ``file:`` URL or ``s3://bucket/prefix``; created by the first write.  The files are in its
        folder ``ledger/``, which has a folder for each query.
    config: of the connection, if it is in a bucket.

    Raises OptionError for any other location.  All methods raise ConnectorError if it cannot be used, DeadlineError if
    it does not answer in time, OptionError if its bucket does not exist.
    """

    def __init__(
        self, location: str, config: S3ConnectionConfig, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._root = open_folder(location, config)
        self._files = self._root.within(FOLDER)
        self._wall_clock = wall_clock

    def of_query(self, owner: str) -> Ledger:
        """Return the part of one query, by its own id: a query that begins here later finds none of its files."""
        part = copy(self)
        part._files = self._files.within(owner)  # noqa: SLF001 - of its own class
        return part

    def queries(self) -> dict[str, QueryFiles]:
        """Return the files of each query, by its owner; also of abandoned queries."""
        queries = {}
        for owner in self._files.folders():
            files = self._files.within(owner).files().values()
            written_s = max((file.written_s for file in files), default=None)
            queries[owner] = QueryFiles(len(files), sum(file.bytes for file in files), written_s)
        return queries

    def forget(self, owner: str) -> None:
        """Delete all files of a query: no run can continue from its checkpoint.

        Raises ConnectorError while a run of it holds the lease.  If only time can tell whether one does, this takes the
        time of a lease.
        """
        if self.lease().is_held_by(owner):
            raise ConnectorError(
                f"the query {owner!r} is running, and uses the state location {self.address}; stop it first"
            )
        self._files.within(owner).remove()

    @property
    def address(self) -> str:
        """The name of the location in errors."""
        return self._root.address

    def lease(self) -> Lease:
        """Return a lease of the location, not acquired yet; only its holder writes here."""
        return Lease(self._root)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, as a whole or not at all; on a disk it is durable on return.

        name: without ``/`` and not beginning with a dot.  A second write of the same content does nothing; of another
            one, it raises ContractError.
        """
        if self._files.create(name, data) is None:
            stored = self._files.read(name)
            if stored is not None and stored.data != data:
                raise ContractError(
                    f"{name!r} in the state location {self.address} has another content, but must never change"
                )

    def read(self, name: str) -> bytes:
        """Return a file.  Raises CheckpointError if it is gone: only files that an offset names are read."""
        stored = self._files.read(name)
        if stored is None:
            raise CheckpointError(
                f"the state location {self.address} has lost {name!r}, which the checkpoint names; "
                "they belong together, so restore it, or begin with a new checkpoint"
            )
        return stored.data

    def note(self, name: str, data: bytes) -> None:
        """Write a note in place of an earlier one of that name; ``sweep`` deletes it unless ``keep`` names it."""
        stored = self._files.read(name)
        if stored is None:
            self._files.create(name, data)
        elif stored.data != data:
            self._files.replace(name, data, stored.version)

    def noted(self, name: str) -> bytes | None:
        """Return a note."""
        stored = self._files.read(name)
        return None if stored is None else stored.data

    def names(self) -> list[str]:
        """Return the names of all files, in order."""
        return sorted(self._files.files())

    def delete(self, name: str) -> None:
        """Delete a file that no offset needs, if it exists."""
        self._files.delete(name)

    def sweep(self, keep: Collection[str], older_than_s: float) -> list[str]:
        """Delete files that no offset names or will name, once they are this old, and return their names."""
        before = self._wall_clock() - older_than_s
        kept = frozenset(keep)
        orphans = sorted(
            name for name, file in self._files.files().items() if name not in kept and file.written_s < before
        )
        for name in orphans:
            self._files.delete(name)
        return orphans
