"""Reads the state location of a query that may be running.  It takes no lease and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tidegate.alignment.splits import Positions, SplitId
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.process_identity import has_ended
from tidegate.enumerators.s3.discovery.left_out import LEFT_OUT, LeftOut
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.enumerators.s3.state.rereads import RereadRequests
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.state.snapshot import S3Snapshot
from tidegate.errors import OptionError
from tidegate.jobs.backfill.output import OWN_FOLDER, STATE_FOLDER
from tidegate.jobs.spark_checkpoint import LoggedBatch, open_checkpoint, source_batches
from tidegate.sources.s3.source import S3Source


@dataclass(frozen=True, slots=True)
class LeaseNote:
    """The holder of the state location, according to the lease.

    owner: the query.  place: the process.
    state: ``held``, ``released``, or that its process has ended; ``held`` also if the process cannot be checked.
    """

    owner: str
    place: str
    state: str


class QueryLedger:
    """The manifests of one query, and the objects that it remembers.

    batches: the batches in Spark's checkpoint, in order.
    """

    def __init__(self, location: str, lease: LeaseNote, ledger: Ledger, batches: list[LoggedBatch] | None) -> None:
        self.location, self.lease, self.ledger, self.batches = location, lease, ledger, batches

    @cached_property
    def manifests(self) -> dict[SplitId, Manifest]:
        """The kept manifests, in order: the live ones, and those that finished in about the last hour."""
        names = [name for name in self.ledger.names() if name[:1].isdecimal()]
        return {name: Manifest.parse(name, self.ledger.read(name)) for name in names}

    @property
    def planned(self) -> Positions:
        """The position in each live manifest after the last batch, written or not."""
        return self.batches[-1].end.progress.positions if self.batches else {}

    @property
    def read(self) -> Positions:
        """The position in each live manifest after the last written batch."""
        written = [batch for batch in self.batches or () if batch.is_committed]
        return written[-1].end.progress.positions if written else {}

    @cached_property
    def state(self) -> S3Snapshot | None:
        """The enumerator's snapshot after the last batch."""
        return _snapshot(self.batches[-1].end) if self.batches else None

    def batch_of(self, split: SplitId, position: int) -> LoggedBatch | None:
        """Return the first known batch after which a chunk is read; an earlier batch may have read it."""
        positions = ((batch, batch.end.progress.positions) for batch in self.batches or ())
        return next((batch for batch, read in positions if read.get(split, 0) > position), None)

    def last_batch_of(self, split: SplitId) -> LoggedBatch | None:
        """Return the last known batch that read chunks of a manifest."""
        before: Mapping[SplitId, int] = {}
        last = None
        for batch in self.batches or ():
            positions = batch.end.progress.positions
            if positions.get(split, 0) > before.get(split, 0):
                last = batch
            before = positions
        return last

    @cached_property
    def seen(self) -> SeenObjects | None:
        """The objects that the query remembers, which only a checkpoint tells."""
        if self.state is None or self.state.seen is None:
            return None
        return SeenObjects.restored(self.state.seen, self.ledger.read, None)

    @cached_property
    def left_out(self) -> LeftOut:
        """The objects that are recorded as left out."""
        notes = LeftOut()
        notes.restore(self.ledger.noted(LEFT_OUT) or b"")
        return notes

    @cached_property
    def requests(self) -> dict[str, int]:
        """The number of chunks that wait to be read again, by request."""
        waiting = RereadRequests(self.ledger, {} if self.state is None else self.state.rereads).pending()
        return {name: len(chunks) for name, chunks in waiting.items()}


def open_query_ledger(source: S3Source, checkpoint: str | None) -> QueryLedger:
    """Return the ledger of the query in a state location.

    source: has the state location, and the options of its connection.
    checkpoint: Spark's checkpoint folder of the query, a path or ``s3://bucket/prefix``.

    Raises OptionError if no query has used the location, or if the checkpoint belongs to another query.  Raises
    ConnectorError if the location or the checkpoint cannot be read.
    """
    location = str(source.state_location)
    whole = Ledger(location, source.connection)
    lease = _lease(whole)
    batches = None
    if checkpoint is not None:
        folder = open_checkpoint(checkpoint, source.connection, option="--checkpoint")
        batches = source_batches(folder, lambda offset: _owner(offset) == lease.owner)
        if not batches:
            raise OptionError(
                f"--checkpoint is {checkpoint}, which has no batch of the query {lease.owner} that uses {location}"
            )
    return QueryLedger(location, lease, whole.of_query(lease.owner), batches)


def _lease(whole: Ledger) -> LeaseNote:
    note = whole.lease().read()
    if note is None:
        of_backfill = Path(whole.address) / OWN_FOLDER / STATE_FOLDER
        meant = f"; did you mean {of_backfill}?" if of_backfill.is_dir() else ""
        raise OptionError(f"{whole.address} is not a state location that a query has used: it has no lease{meant}")
    ended = "released" if note.released else "its process has ended" if has_ended(note.process) else "held"
    return LeaseNote(note.owner, note.place, ended)


def _owner(offset: Offset) -> str | None:
    snapshot = _snapshot(offset)
    return None if snapshot is None else snapshot.owner


def _snapshot(offset: Offset) -> S3Snapshot | None:
    if offset.source != S3Source.connector or offset.enumerator is None:
        return None
    return S3Snapshot.from_json(offset.enumerator)
