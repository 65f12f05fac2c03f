"""A lease on a folder: it admits one live query at a time, and a killed query locks out no other.

The holder renews the lease.  Clocks are never compared: a query that wants the lease watches it for its duration.  It
takes the lease if it was not renewed, or if the holder's process is gone.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.folders.folder import Folder, Stored
from tidegate.enumerators.process_identity import has_ended, this_process
from tidegate.errors import CheckpointError, ConnectorError, TidegateError

_LOG = logging.getLogger("tidegate.planner")
NAME = "lease.json"
LEASE_S, _LONGEST_S = 30.0, 3600.0
RENEWALS_PER_LEASE = 6
LOOKS_PER_LEASE = 30
PATIENCE_S = 5.0
NO_VERSION = '"0"'  # of no file


@dataclass(frozen=True, slots=True)
class _Note:
    """The content of the lease.

    owner: the id of the query; the same after restarts.
    process: the run's process; empty: unknown whether it still runs.
    renewal: a counter, so that each renewal is visible.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    owner: str
    holder: str
    place: str
    lease_s: Annotated[float, Field(gt=0, le=_LONGEST_S)]
    process: str = ""
    renewal: int = 0
    released: bool = False

    def dump(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def parse(cls, data: bytes, address: str) -> _Note:
        try:
            return TypeAdapter(cls).validate_json(data)
        except ValidationError as problem:
            raise CheckpointError(
                f"{NAME} in the state location {address} is not a lease of this version of tidegate; "
                "delete it if no query uses the location"
            ) from problem


class Lease:
    """A lease on a folder; one for each run of a query.

    clocks: if a test moves them, no thread renews the lease, and the test calls ``renew``.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        lease_s: float = LEASE_S,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        self._folder, self._lease_s, self._clocks = folder, lease_s, clocks
        self._holder = uuid.uuid4().hex
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._held: tuple[_Note, str] | None = None
        self._lost_to: _Note | None = None
        self._renewed_at = 0.0

    def acquire(self, owner: str) -> None:
        """Take the lease, and keep it until ``release``.

        owner: the query's own id, which its checkpoint keeps: a restart takes the lease of its earlier run at once.

        If another query holds it, this waits for the time of that lease.  A renewal meanwhile is an error.  If the
        other query ran on this machine and its process is gone, the wait ends at once.

        Raises ConnectorError if the other query is alive, or the folder cannot be used.
        """
        place = f"process {os.getpid()} on {socket.gethostname()}"
        mine = _Note(owner, self._holder, place, self._lease_s, this_process())
        version: str | None = None
        over: Stored | None = None
        waited = False
        while version is None:
            asked_at = self._clocks.monotonic()
            stored = self._folder.read(NAME)
            if stored is None:
                version = self._folder.create(NAME, mine.dump())
                continue
            note = self._parse(stored)
            if stored == over or note.owner == owner or not _may_live(note):
                version = self._folder.replace(NAME, mine.dump(), stored.version)
            elif waited:
                raise ConnectorError(
                    f"the state location {self._folder.address} is in use by another query, {note.place}; "
                    "each query needs its own stateLocation"
                )
            else:
                _LOG.warning(
                    "the state location %s was in use by another query, %s; waiting up to %g s to see if it still is",
                    self._folder.address,
                    note.place,
                    note.lease_s,
                )
                waited = True
                over = self._watch(stored, note)
        self._require_conditions(mine.dump())
        self._held, self._renewed_at = (mine, version), asked_at
        if self._clocks.are_real:
            self._thread = threading.Thread(target=self._renew_for_ever, name="tidegate-lease", daemon=True)
            self._thread.start()

    def read(self) -> _Note | None:
        """Return the content of the lease, whatever run holds it."""
        stored = self._folder.read(NAME)
        return None if stored is None else self._parse(stored)

    def check(self) -> None:
        """Make sure that the lease is held.  Called before every write that needs it; usually without I/O.

        Raises ConnectorError if another run took it, or it could not be renewed in time.
        """
        # This process may have slept, and perhaps no other wanted the lease meanwhile.  A renewal that took as long as
        # the lease shows nothing: another may have come since it was written.
        while self._may_be_lost():
            self.renew()

    def _may_be_lost(self) -> bool:
        if self._ended.is_set() or self._held is None:
            return False
        return self._lost_to is not None or self._clocks.monotonic() - self._renewed_at >= self._lease_s

    def renew(self) -> None:
        """Renew the lease.

        Raises ConnectorError if another run took it, or the folder cannot be used.
        """
        with self._writing:
            if self._ended.is_set() or self._held is None:
                return
            if self._lost_to is None:
                self._renew(*self._held)
            if self._lost_to is not None:
                raise ConnectorError(
                    f"the state location {self._folder.address} was taken over by another run, {self._lost_to.place}; "
                    "two queries cannot share a stateLocation, nor two runs a checkpoint"
                )

    def release(self) -> None:
        """Release the lease at once for other queries; may be called twice, and without ``acquire``.

        Raises nothing if the folder cannot be reached: the lease ends by itself.
        """
        self._ended.set()
        # This does not wait for a hanging renewal; even if it succeeds, the lease ends by itself.
        if not self._writing.acquire(timeout=PATIENCE_S):
            return
        try:
            held, self._held = self._held, None
            if held is not None and self._lost_to is None:
                note, version = held
                self._folder.replace(NAME, replace(note, released=True).dump(), version)
        except TidegateError as problem:
            _LOG.info("the lease of %s is left to end by itself: %s", self._folder.address, problem)
        finally:
            self._writing.release()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def _watch(self, stored: Stored, note: _Note) -> Stored | None:
        """Watch a lease until it changes, or its process or its time is over; return it if it has not changed."""
        begun = self._clocks.monotonic()
        while True:
            self._clocks.sleep(note.lease_s / LOOKS_PER_LEASE)
            asked_at = self._clocks.monotonic()
            if self._folder.read(NAME) != stored:
                return None
            if asked_at - begun >= note.lease_s or has_ended(note.process):
                return stored

    def _require_conditions(self, data: bytes) -> None:
        """Make sure that the endpoint does not ignore conditions: two queries would both take the lease."""
        if self._folder.create(NAME, data) is not None or self._folder.replace(NAME, data, NO_VERSION) is not None:
            raise ConnectorError(
                f"the state location {self._folder.address} needs an endpoint with conditional writes, but this one "
                "ignores If-None-Match or If-Match; give a folder on a disk"
            )

    def _renew(self, note: _Note, version: str) -> None:
        asked_at = self._clocks.monotonic()
        renewed = replace(note, renewal=note.renewal + 1)
        written = self._folder.replace(NAME, renewed.dump(), version)
        if written is None:
            stored = self._folder.read(NAME)
            if stored is None:
                written = self._folder.create(NAME, renewed.dump())
            else:
                renewed = self._parse(stored)
                if renewed.holder != self._holder:
                    self._lost_to = renewed
                    return
                # It was written by an attempt whose answer was lost.
                written = stored.version
        if written is not None:
            self._held, self._renewed_at = (renewed, written), asked_at

    def _renew_for_ever(self) -> None:
        while self._lost_to is None and not self._ended.wait(self._lease_s / RENEWALS_PER_LEASE):
            with suppress(TidegateError):  # the next check raises it, in the query
                self.renew()

    def _parse(self, stored: Stored) -> _Note:
        return _Note.parse(stored.data, self._folder.address)


def _may_live(note: _Note) -> bool:
    return not note.released and not has_ended(note.process)
