"""Where a query keeps what it discovered: files that never change, which the offsets in its checkpoint name."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from copy import copy
from typing import NamedTuple

from tidegate.enumerators.s3.state.folder import open_folder
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.errors import CheckpointError, ConnectorError, ContractError
from tidegate.readers.s3.config import S3ConnectionConfig

__all__ = ["Ledger", "QueryFiles"]

FOLDER = "ledger"  # its own, so that what lies there is ours to delete


class QueryFiles(NamedTuple):
    """How much a query keeps.

    written_s: when the last of it was written, in seconds since the epoch; None: there is nothing.
    """

    files: int
    bytes: int
    written_s: float | None


class Ledger:
    """A folder of files that are written once, at ``stateLocation``; opens nothing before it is first used.

    location: a path, a ``file:`` URL or ``s3://bucket/prefix``; made when something is written.  Its
        files are in ``ledger/`` there, those of one query in a folder of its own in that.
    config: how to reach it, if it is in a bucket.

    Raises OptionError for a location that is none of these.  All methods raise ConnectorError when it
    cannot be used, DeadlineError when it does not answer in time, OptionError when its bucket does not exist.
    """

    def __init__(
        self, location: str, config: S3ConnectionConfig, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._root = open_folder(location, config)
        self._files = self._root.within(FOLDER)
        self._wall_clock = wall_clock

    def of_query(self, owner: str) -> Ledger:
        """Return the part that is one query's alone: another one that begins here later finds none of its files.

        owner: the query's own id, which its checkpoint keeps.
        """
        part = copy(self)
        part._files = self._files.within(owner)  # noqa: SLF001 - of its own class
        return part

    def queries(self) -> dict[str, QueryFiles]:
        """Return what each query keeps here, by its owner; also those that nobody will go on with any more."""
        found = {}
        for owner in self._files.folders():
            files = self._files.within(owner).files().values()
            written_s = max((file.written_s for file in files), default=None)
            found[owner] = QueryFiles(len(files), sum(file.bytes for file in files), written_s)
        return found

    def forget(self, owner: str) -> None:
        """Delete all that a query keeps here: no run can go on from its checkpoint any more.

        Raises ConnectorError while a run of it holds the lease.  Where only time tells whether one does, it takes that
        time.
        """
        if self.lease().is_held_by(owner):
            raise ConnectorError(
                f"the query {owner!r} is running, and uses the state location {self.address}; stop it first"
            )
        self._files.within(owner).remove()

    @property
    def address(self) -> str:
        """The location, as errors name it."""
        return self._root.address

    def lease(self) -> Lease:
        """Return a lease of the location that nobody holds yet; who holds it is alone in writing here."""
        return Lease(self._root)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, as a whole or not at all; on a disk it is there for good on return.

        name: without ``/`` and not beginning with a dot.  Written again with the same content, nothing happens;
            with another one that is a ContractError.
        """
        if not name or "/" in name or name.startswith("."):
            raise ContractError(f"{name!r} cannot be the name of a file in the state location")
        if self._files.create(name, data) is None:
            found = self._files.read(name)
            if found is not None and found.data != data:
                raise ContractError(
                    f"{name!r} in the state location {self.address} has another content, and never changes"
                )

    def read(self, name: str) -> bytes:
        """Return a file.  Raises CheckpointError when it is gone: only those that an offset names are read."""
        found = self._files.read(name)
        if found is None:
            raise CheckpointError(
                f"the state location {self.address} has lost {name!r}, which the checkpoint names; "
                "they belong together, so restore it, or begin with a new checkpoint"
            )
        return found.data

    def note(self, name: str, data: bytes) -> None:
        """Write a note in place of an earlier one of that name: for people, and nothing that a restart needs.

        ``sweep`` has to be told to keep it.
        """
        found = self._files.read(name)
        if found is None:
            self._files.create(name, data)
        elif found.data != data:
            self._files.replace(name, data, found.version)

    def noted(self, name: str) -> bytes | None:
        """Return a note; None: there is none."""
        found = self._files.read(name)
        return None if found is None else found.data

    def names(self) -> list[str]:
        """Return the names of all files, in order."""
        return sorted(self._files.files())

    def delete(self, name: str) -> None:
        """Delete a file, if it is there, that no offset needs any more."""
        self._files.delete(name)

    def sweep(self, keep: Collection[str], older_than_s: float) -> list[str]:
        """Delete the files that nobody names any more, and return their names.

        keep: those that an offset names, or that one which is still to be stored will name.
        older_than_s: only files that were written longer ago, in seconds, by this machine's clock.
        """
        before = self._wall_clock() - older_than_s
        kept = frozenset(keep)
        orphans = sorted(
            name for name, file in self._files.files().items() if name not in kept and file.written_s < before
        )
        for name in orphans:
            self._files.delete(name)
        return orphans
