"""Explains what an S3 query has found and read (`tidegate ledger`).  It takes no lease and writes nothing."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.alignment.splits import Positions, SplitId
from tidegate.enumerators.contract import Json
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.process_identity import has_ended
from tidegate.enumerators.s3.discovery.rounds import LEFT_OUT, LeftOut, LeftOutObject
from tidegate.enumerators.s3.manifest import Manifest, compressed_batches
from tidegate.enumerators.s3.standing import S3Snapshot
from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.errors import OptionError
from tidegate.jobs.arguments import parse_options
from tidegate.jobs.backfill import OWN_FOLDER, STATE_FOLDER
from tidegate.jobs.figures import clock_time
from tidegate.jobs.spark_checkpoint import BatchLogs, LoggedBatch, open_checkpoint
from tidegate.readers.objects.values import Chunk, S3Object
from tidegate.readers.s3.config import s3_address
from tidegate.readers.s3.listing import Listed, PageRequest, list_pages
from tidegate.readers.s3.store import ObjectStore
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
        """The objects that the query remembers, which only a checkpoint shows."""
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

    checkpoint: Spark's checkpoint folder of the query, which shows what chunks were read.
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


_SPECIAL = re.compile(r"[*?\[]")

State: TypeAlias = Literal[
    "read", "planned", "waiting", "found", "left out", "overwritten", "too old", "not found yet", "gone", "unknown"
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key, or a glob of keys with ``*`` (also for ``/``), ``?`` and ``[a-z]``, perhaps as ``s3://bucket/key``."""

    text: str

    @property
    def pattern(self) -> str:
        """The key or glob without the bucket."""
        # An object's key may begin with a slash; the key of an address may not.
        return self.text if s3_address(self.text) is None else self.text.partition("://")[2].partition("/")[2]

    @property
    def prefix(self) -> str:
        """The prefix of all the keys."""
        special = _SPECIAL.search(self.pattern)
        return self.pattern if special is None else self.pattern[: special.start()]

    @property
    def is_glob(self) -> bool:
        """Whether several objects may match."""
        return self.prefix != self.pattern

    def has(self, key: str) -> bool:
        """Return whether a key matches."""
        return key == self.pattern or (self.is_glob and fnmatch.fnmatchcase(key, self.pattern))


def wanted_objects(source: S3Source, wanted: Wanted) -> list[Listed]:
    """Return the wanted objects of the source's bucket, data or not, in the order of keys.

    Raises OptionError if another bucket is named, and the errors of the listing.
    """
    if "://" in wanted.text and not wanted.text.partition("://")[2].startswith(f"{source.bucket}/"):
        raise OptionError(f"{wanted.text!r} is not in the bucket {source.bucket!r}, of the path {source.path}")
    if not wanted.is_glob:
        found = ObjectStore(source.connection, source.bucket).find(wanted.pattern)
        return [] if found is None else [found]
    pages = list_pages(source.connection, PageRequest(source.bucket, wanted.prefix))
    return sorted({listed for page in pages for listed in page.listed if wanted.has(listed.obj.key)})


def why_of(ledger: QueryLedger, wanted: Wanted) -> list[Json]:
    """Return the findings about the wanted objects, in the order of their keys; with a source, also ask the bucket.

    Each object has at least one.  A finding has its ``state``.  If it is about a chunk, it has that chunk, its place,
    and the batch that read it, or reads it now.  If the object was left out, it has the ``reason``.
    """
    chunks: dict[str, list[tuple[SplitId, int, Chunk]]] = {}
    for split in ledger.manifests:
        for position, chunk in find_chunks(ledger, split, wanted):
            chunks.setdefault(chunk.key, []).append((split, position, chunk))
    noted: dict[str, list[LeftOutObject]] = {}
    for left_out in ledger.left_out.objects():
        if wanted.has(left_out.obj.key):
            noted.setdefault(left_out.obj.key, []).append(left_out)
    present = {} if ledger.source is None else {one.obj.key: one for one in wanted_objects(ledger.source, wanted)}
    keys = {*chunks, *noted, *present, *(() if wanted.is_glob else (wanted.pattern,))}
    return [
        {
            "key": key,
            "findings": [
                *(_of_chunk(ledger, *place) for place in chunks.get(key, ())),
                *_of_object(ledger, key, present.get(key), chunks.get(key, ()), noted.get(key, ())),
            ],
        }
        for key in sorted(keys)
    ]


def find_chunks(ledger: QueryLedger, split: SplitId, wanted: Wanted) -> Iterator[tuple[int, Chunk]]:
    """Yield the chunks of the wanted objects, with their positions in a manifest."""
    begin = 0
    for batch in compressed_batches(ledger.manifests[split].data):
        near = batch.append_column("position", pa.array(range(begin, begin + batch.num_rows))).filter(
            pc.starts_with(batch["key"], wanted.prefix)
        )
        begin += batch.num_rows
        for *fields, position in zip(*near.to_pydict().values(), strict=True):
            if wanted.has(fields[0]):
                yield position, Chunk(*fields)


def _of_chunk(ledger: QueryLedger, split: SplitId, position: int, chunk: Chunk) -> Json:
    batch = ledger.batch_of(split, position)
    state: State
    if batch is None:
        state = "waiting" if split in ledger.planned else "found"
    else:
        state = "read" if batch.is_committed else "planned"
    place = {"manifest": split, "position": position, "batch": None if batch is None else batch.number}
    shown = {"state": state, **chunk._asdict(), **place}
    del shown["key"]
    return shown


def _of_object(
    ledger: QueryLedger,
    key: str,
    present: Listed | None,
    chunks: Sequence[tuple[SplitId, int, Chunk]],
    noted: Sequence[LeftOutObject],
) -> Iterator[Json]:
    for note in noted:
        yield _finding("left out", note.reason)
    if ledger.source is None:
        if not chunks and not noted:
            yield _finding("found" if ledger.seen is not None and ledger.seen.remembers(key) else "unknown")
        return
    if present is None:
        yield _finding("gone" if chunks or noted else "unknown")
        return
    rules = ledger.source.listing_rules
    if not key.startswith(rules.prefix):
        yield _finding("left out", f"its key does not begin with {rules.prefix!r}")
    elif (objection := rules.objection(present)) is not None:
        yield _finding("left out", objection)
    elif present.obj not in [*(chunk.source for _, _, chunk in chunks), *(note.obj for note in noted)]:
        yield _finding("overwritten" if chunks else _of_present(ledger, present.obj))


def _of_present(ledger: QueryLedger, present: S3Object) -> State:
    """Return the state of an object without a kept chunk."""
    seen = ledger.seen
    if seen is None:
        return "unknown"
    new, overwritten = seen.sift([present])
    if new or overwritten:
        return "not found yet" if new else "overwritten"
    return "read" if seen.remembers(present.key) else "too old"


def _finding(state: State, reason: str | None = None) -> Json:
    return {"state": state} if reason is None else {"state": state, "reason": reason}
