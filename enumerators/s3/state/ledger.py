"""The ledger of queries: files that never change, and are named by the offsets in their checkpoints.

Each query has a part of its own.  Only it writes there, and it sweeps files that no offset names.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from copy import copy

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.s3.manifest import Manifest
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


OFFSETS_REMEMBERED = 4  # Spark may go back to the last one or two
ORPHAN_S = 3600.0
_OPTIONS = "options"  # the name of their file
_PATH = "path"


class QueryFolder:
    """The files that a query writes before an offset names them.

    location: the state location; each query has a part of it.
    options: JSON values that may not change from run to run, by name; no value is secret.  ``path`` may become a
        parent, because the objects that were found are also below it.
    """

    def __init__(self, location: Ledger, owner: str, options: Mapping[str, object]) -> None:
        self.ledger = location.of_query(owner)
        self._location, self._owner, self._options = location, owner, options
        self._lease: Lease | None = None
        self._notes: dict[str, bytes] = {}
        self._offsets: deque[set[str]] = deque(maxlen=OFFSETS_REMEMBERED)  # files that each names
        self._swept: set[str] | None = None

    def hold(self) -> None:
        """Take the lease, or raise ConnectorError; raise CheckpointError for options that differ or are damaged."""
        if self._lease is None:
            lease = self._location.lease()
            lease.acquire(self._owner)
            self._lease = lease
        if self._options:
            self._keep_options()
            self._options = {}  # they are kept
        self._lease.check()

    def release(self) -> None:
        """Release the lease; may be called twice."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def manifest(self, split: SplitId) -> Manifest:
        """Return a stored manifest.  Raises CheckpointError if it is lost or damaged."""
        return Manifest.parse(split, self.ledger.read(split))

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files, one after the other."""
        for name, data in files.items():
            self.ledger.write(name, data)

    def noted(self, name: str) -> bytes:
        """Return a note, or an empty one."""
        self._notes[name] = self.ledger.noted(name) or b""
        return self._notes[name]

    def note(self, name: str, data: bytes) -> None:
        """Write a note in place of an earlier one, unless they are equal."""
        if data != self._notes.get(name, b""):
            self.ledger.note(name, data)
            self._notes[name] = data

    def remember(self, named: Collection[str]) -> None:
        """Remember the files that an offset names."""
        names = {*named}
        if not self._offsets or self._offsets[-1] != names:
            self._offsets.append(names)

    def sweep(self, named: Collection[str]) -> None:
        """Delete old files that neither the last stored offset nor the next one names."""
        names = {_OPTIONS, *self._notes, *named}
        if names != self._swept:
            self.ledger.sweep(names.union(*self._offsets), ORPHAN_S)
            self._swept = names

    def _keep_options(self) -> None:
        """Store the options of the first run, and hold later runs to them: waiting objects were planned by them."""
        note = self.ledger.noted(_OPTIONS)
        try:
            before = {} if note is None else dict(json.loads(note))
        except (ValueError, TypeError, RecursionError):
            raise CheckpointError(
                f"{_OPTIONS!r} in the state location {self.ledger.address} is damaged; restore it, or begin with a new "
                "checkpoint and a new stateLocation"
            ) from None
        for name, value in self._options.items():
            noted = before.get(name, value)
            if noted != value and not (name == _PATH and str(noted).startswith(str(value))):
                raise CheckpointError(
                    f"{name} {_set('is', value)}, but {_set('was', noted)} in the runs before, by which the objects "
                    "that wait were found and planned; set it back, or begin with a new checkpoint and a new "
                    "stateLocation"
                )
        if before != self._options:
            self.ledger.note(_OPTIONS, json.dumps(self._options).encode())


def _set(verb: str, value: object) -> str:
    return f"{verb} not set" if value is None else f"{verb} {value!r}"
