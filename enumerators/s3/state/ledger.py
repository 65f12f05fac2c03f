"""The ledger of queries: files that never change, and are named by the offsets in their checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from copy import copy

from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.errors import CheckpointError, ContractError
from tidegate.readers.s3.config import S3ConnectionConfig

FOLDER = "ledger"  # a separate folder, so that all files in it are ours to delete


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
        self._files.write(name, data)

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

    def sweep(self, keep: Collection[str], older_than_s: float) -> None:
        """Delete files that no offset names or will name, once they are this old."""
        before = self._wall_clock() - older_than_s
        for name, file in self._files.files().items():
            if name not in keep and file.written_s < before:
                self._files.delete(name)
