"""A planner's note of how many bad records there are after its last batch.

An offset counts the bad records of the batches before its own, so no offset has those of a run's last batch.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection
from contextlib import suppress
from threading import Lock
from typing import Any

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.errors import ConnectorError
from tidegate.readers.events.event import BAD_RECORDS, SourceEvent

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
            new = {(e.split_id, e.start): int(e.said["number"]) for e in events if e.about == BAD_RECORDS}
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
