"""A query's own part of the state location: only the query writes there, and sweeps files that no offset names."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Mapping

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.errors import CheckpointError

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
        """Take the lease, or raise ConnectorError; raise CheckpointError for options of another query."""
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
        """Return a note; empty: there is none."""
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
        before = {} if note is None else json.loads(note)
        for name, value in self._options.items():
            noted = before.get(name, value)
            if noted != value and not (name == _PATH and str(noted).startswith(str(value))):
                raise CheckpointError(
                    f"{name} {_told('is', value)}, but {_told('was', noted)} in the runs before, by which the objects "
                    "that wait were found and planned; set it back, or begin with a new checkpoint and a new "
                    "stateLocation"
                )
        if before != self._options:
            self.ledger.note(_OPTIONS, json.dumps(self._options).encode())


def _told(verb: str, value: object) -> str:
    return f"{verb} not set" if value is None else f"{verb} {value!r}"
