"""Asks a query to read objects again."""

from __future__ import annotations

import time
from datetime import datetime

import pyarrow as pa

from tidegate.alignment.durations import epoch_ms
from tidegate.enumerators.contract import Json
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.enumerators.s3.state.rereads import request_reread
from tidegate.errors import OptionError
from tidegate.jobs.ledger.query_ledger import QueryLedger, times_of
from tidegate.jobs.ledger.why import Wanted, find_chunks, wanted_objects
from tidegate.readers.objects.values import Chunk, S3Object


def reread_objects(ledger: QueryLedger, objects: str | None, begin: datetime | None, end: datetime | None) -> Json:
    """Request the present versions of objects, if the query has found them before, and return the request.

    objects: a key, or a glob of keys, instead of all of the path.
    begin, end: only chunks with event times in this range, the end exclusive.

    Raises OptionError if there are no such chunks, or if the query cleans objects.
    """
    source = ledger.source
    if not (objects or begin or end):
        raise OptionError("nothing to read again is named: give GLOB, or --from and --to")
    if source is None:
        raise OptionError("to read objects again, --option path=s3://... is needed, and the query's other options")
    if ledger.state is not None and ledger.state.clean is not None:
        raise OptionError("the query cleans objects that it has read (cleanSource), so they cannot be read again")
    seen = ledger.seen
    if seen is None:
        raise OptionError("to read objects again, --checkpoint must hold a batch, which says what objects were found")
    rules = source.listing_rules
    wanted = Wanted(objects or f"{rules.prefix}*")
    found = [one for one in wanted_objects(source, wanted) if one.obj.key.startswith(rules.prefix)]
    candidates = [one.obj for one in found if rules.takes(one)]
    new = {obj.key for obj in seen.sift(candidates)[0]}
    known_objects = [obj for obj in candidates if obj.key not in new]
    times = {"starting_timestamp": begin, "ending_timestamp": end}
    timed = source.model_copy(update={name: epoch_ms(time) for name, time in times.items() if time is not None})
    manifest = Manifest.build(0, timed.discovery(lambda: (page for page in [known_objects])).round())
    waiting = _waiting(ledger, wanted)
    chunks = manifest.chunks(0, len(manifest))
    chunks = chunks.filter(pa.array([chunk not in waiting for chunk in _keys(chunks)], pa.bool_()))
    if not chunks.num_rows:
        detail = (
            "the query has not read these objects yet"
            if len(manifest)
            else "no such object was found before, or none holds such rows"
        )
        raise OptionError(f"{wanted.text!r} names nothing to read again: {detail}")
    table, now_ms = pa.Table.from_batches([chunks]), int(time.time() * 1000)
    request = request_reread(ledger.ledger, table, now_ms)
    asked = Manifest.build(now_ms, table)
    return {
        "request": request,
        "chunks": len(asked),
        "bytes": asked.cost(0, len(asked)).bytes,
        "notYetRead": len(manifest) - len(asked),
        **times_of(asked),
    }


def _waiting(ledger: QueryLedger, wanted: Wanted) -> set[tuple[S3Object, int]]:
    """Return the wanted chunks that the query has not read yet."""
    return {
        (chunk.source, chunk.start)
        for split, read in ledger.planned.items()
        if split in ledger.manifests
        for position, chunk in find_chunks(ledger, split, wanted)
        if position >= read
    }


def _keys(chunks: pa.RecordBatch) -> list[tuple[S3Object, int]]:
    pieces = (Chunk(*fields) for fields in zip(*chunks.to_pydict().values(), strict=True))
    return [(chunk.source, chunk.start) for chunk in pieces]
