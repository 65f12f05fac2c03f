"""Reads the state location of a query that may be running, and describes it.  It takes no lease and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tidegate.alignment.splits import Positions, SplitId
from tidegate.enumerators.contract import Json
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.process_identity import has_ended
from tidegate.enumerators.s3.discovery.left_out import LEFT_OUT, LeftOut
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.state.snapshot import S3Snapshot
from tidegate.errors import OptionError
from tidegate.jobs.arguments import parse_options
from tidegate.jobs.backfill.output import OWN_FOLDER, STATE_FOLDER
from tidegate.jobs.figures import clock_time
from tidegate.jobs.spark_checkpoint import BatchLogs, LoggedBatch, open_checkpoint
from tidegate.sources.s3.source import S3Source

_NO_PATH = "s3://not-given"


class QueryLedger:
    """The manifests of one query, and the objects that it remembers.

    source: the source of the query; None: its path is not given, so the bucket cannot be asked.
    batches: the batches in Spark's checkpoint, in order; none without a checkpoint.

    Raises OptionError if no query has used the location, or if the checkpoint belongs to another query.  Raises
    ConnectorError if the location or the checkpoint cannot be read.
    """

    def __init__(self, source: S3Source, checkpoint: str | None, *, has_path: bool) -> None:
        self.source = source if has_path else None
        self.location = str(source.state_location)
        whole = Ledger(self.location, source.connection)
        lease = whole.lease().read()
        if lease is None:
            of_backfill = Path(whole.address) / OWN_FOLDER / STATE_FOLDER
            meant = f"; did you mean {of_backfill}?" if of_backfill.is_dir() else ""
            raise OptionError(f"{whole.address} is not a state location that a query has used: it has no lease{meant}")
        self._lease, self.ledger = lease, whole.of_query(lease.owner)
        self.batches: list[LoggedBatch] = []
        if checkpoint is not None:
            logs = BatchLogs.read(open_checkpoint(checkpoint, "--checkpoint", source.connection))
            self.batches = logs.of_source(lambda offset: _owner(offset) == lease.owner)
            if not self.batches:
                raise OptionError(
                    f"--checkpoint is {checkpoint}, which has no batch of the query {lease.owner} that uses "
                    f"{self.location}"
                )

    def to_json(self) -> Json:
        """Return the user of the location, the manifests, and the remembered objects, with event times in UTC."""
        lease, seen, last = self._lease, self.seen, self.batches[-1] if self.batches else None
        return {
            "stateLocation": self.location,
            "query": lease.owner,
            "process": lease.place,
            # Held, also if the process cannot be checked.
            "lease": "released" if lease.released else "its process has ended" if has_ended(lease.process) else "held",
            "batch": None if last is None else last.number,
            "batchIsWritten": None if last is None else last.is_committed,
            "bound": None if last is None else _time(last.end.progress.bound_ms),
            "watermark": None if last is None else _time(last.end.progress.watermark_ms),
            "objectsRemembered": None if seen is None else len(seen),
            "rememberedSince": None if seen is None else _time(seen.horizon_ms),
            "leftOut": dict(Counter(note.reason for note in self.left_out.objects())),
            "manifests": [self._manifest(split) for split in self.manifests],
        }

    def _manifest(self, split: SplitId) -> Json:
        manifest, last = self.manifests[split], self.last_batch_of(split)
        cost = manifest.cost(0, len(manifest))
        return {
            "manifest": split,
            "chunks": len(manifest),
            "objects": cost.files,
            "bytes": cost.bytes,
            **times_of(manifest),
            "planned": self.planned.get(split),
            "read": self.read.get(split),
            "batch": None if last is None else last.number,
        }

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
        written = [batch for batch in self.batches if batch.is_committed]
        return written[-1].end.progress.positions if written else {}

    @cached_property
    def state(self) -> S3Snapshot | None:
        """The enumerator's snapshot after the last batch."""
        return _snapshot(self.batches[-1].end) if self.batches else None

    def batch_of(self, split: SplitId, position: int) -> LoggedBatch | None:
        """Return the first known batch after which a chunk is read; an earlier batch may have read it."""
        positions = ((batch, batch.end.progress.positions) for batch in self.batches)
        return next((batch for batch, read in positions if read.get(split, 0) > position), None)

    def last_batch_of(self, split: SplitId) -> LoggedBatch | None:
        """Return the last known batch that read chunks of a manifest."""
        before: Mapping[SplitId, int] = {}
        last = None
        for batch in self.batches:
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


def open_query_ledger(location: str, checkpoint: str | None, options: Sequence[str] | None) -> QueryLedger:
    """Return the ledger of the query in a state location.

    checkpoint: Spark's checkpoint folder of the query, which tells what chunks were read.
    options: the options of the source, as NAME=VALUE.

    Raises OptionError, one sentence, for contradictory arguments and for unknown names, and the errors of QueryLedger.
    """
    given = {name.lower(): value for name, value in parse_options("--option", options).items()}
    source = S3Source.from_options({"path": _NO_PATH, **given, "statelocation": location})
    return QueryLedger(source, checkpoint, has_path="path" in given)


def times_of(manifest: Manifest) -> Json:
    """Return the least event time of a manifest, and the greatest."""
    head = manifest.head(0)
    return {"begin": None if head is None else _time(head.event_time_ms), "end": _time(manifest.latest(len(manifest)))}


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else clock_time(time_ms)


def _owner(offset: Offset) -> str | None:
    snapshot = _snapshot(offset)
    return None if snapshot is None else snapshot.owner


def _snapshot(offset: Offset) -> S3Snapshot | None:
    if offset.source != S3Source.connector or offset.enumerator is None:
        return None
    return S3Snapshot.from_json(offset.enumerator)
