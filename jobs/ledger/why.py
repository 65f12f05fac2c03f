"""Explains why an object was or was not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.s3.discovery.left_out import LeftOutObject
from tidegate.enumerators.s3.manifests.chunk_sorter import compressed_batches
from tidegate.jobs.figures import clock_time, count
from tidegate.jobs.ledger.listed import Wanted, listed
from tidegate.jobs.ledger.query_ledger import QueryLedger
from tidegate.readers.objects.values import Chunk, S3Object
from tidegate.sources.s3.source import S3Source

__all__ = ["Finding", "State", "Why", "find_chunks", "why"]

State: TypeAlias = Literal[
    "read", "planned", "waiting", "found", "left out", "overwritten", "too old", "not found yet", "gone", "unknown"
]
_OF_NOTES = {
    "overwritten": "it was overwritten after it was found, and allowOverwrites is false",
    "corrupt": "it could not be cut into chunks, and ignoreCorruptFiles is true",
    "gone": "it was deleted or overwritten before it could be looked at",
}


class Finding(NamedTuple):
    """A finding about an object.

    chunk: the chunk that it is about; None: the whole object.
    manifest, position: the manifest of the chunk, and its position there.
    batch: the batch that read the chunk, or that reads it now.
    """

    state: State
    sentence: str
    chunk: Chunk | None = None
    manifest: SplitId | None = None
    position: int | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """The findings about an object, at least one."""

    key: str
    findings: tuple[Finding, ...]


def why(ledger: QueryLedger, source: S3Source | None, wanted: Wanted) -> list[Why]:
    """Return the findings about the wanted objects, in the order of their keys; with a source, ask the bucket, too."""
    chunks: dict[str, list[tuple[SplitId, int, Chunk]]] = {}
    for split in ledger.manifests:
        for position, chunk in find_chunks(ledger, split, wanted):
            chunks.setdefault(chunk.key, []).append((split, position, chunk))
    noted: dict[str, list[LeftOutObject]] = {}
    for left_out in ledger.left_out.objects():
        if wanted.has(left_out.obj.key):
            noted.setdefault(left_out.obj.key, []).append(left_out)
    present = {} if source is None else {obj.key: obj for obj in listed(source, wanted)}
    keys = {*chunks, *noted, *present, *(() if wanted.is_glob else (wanted.pattern,))}
    return [
        Why(
            key,
            (
                *(_of_chunk(ledger, *place) for place in chunks.get(key, ())),
                *_of_object(ledger, source, key, present.get(key), chunks.get(key, ()), noted.get(key, ())),
            ),
        )
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


def _of_chunk(ledger: QueryLedger, split: SplitId, position: int, chunk: Chunk) -> Finding:
    times = "no event time" if chunk.min_ms is None else f"event times from {_clock(chunk.min_ms)}"
    place = f"position {position} of manifest {split}, with {times}"
    if ledger.batches is None:
        return Finding("found", f"it is at {place}; give --checkpoint to know if it is read", chunk, split, position)
    batch = ledger.batch_of(split, position)
    if batch is None:
        if split in ledger.planned:
            at = f"it waits at {place}; the query has read {count(ledger.planned[split])} of its chunks"
            return Finding("waiting", at, chunk, split, position)
        said = f"it is at {place}; no batch that Spark still knows names this manifest"
        return Finding("found", said, chunk, split, position)
    if not batch.is_committed:
        said = f"batch {batch.number} reads it, and is not written yet: {place}"
        return Finding("planned", said, chunk, split, position, batch.number)
    first = batch.number > 0 and batch is ledger.batches[0]
    said = f"batch {batch.number}{' or an earlier one' if first else ''} has read it: {place}"
    return Finding("read", said, chunk, split, position, batch.number)


def _of_object(
    ledger: QueryLedger,
    source: S3Source | None,
    key: str,
    present: S3Object | None,
    chunks: Sequence[tuple[SplitId, int, Chunk]],
    noted: Sequence[LeftOutObject],
) -> Iterator[Finding]:
    for note in noted:
        yield Finding("left out", f"left out on {_clock(note.at_ms)}: {_OF_NOTES[note.reason]}")
    if source is None:
        if not chunks and not noted:
            yield _of_memory(ledger, key)
        return
    if present is None:
        yield Finding("gone" if chunks or noted else "unknown", "there is no such object in the bucket now")
        return
    prefix = source.listing_rules.prefix
    if not key.startswith(prefix):
        yield Finding("left out", f"its key does not begin with {prefix!r}, the path of the query")
        return
    if (objection := source.listing_rules.objection(present)) is not None:
        yield Finding("left out", f"left out, because {objection}")
        return
    if present in [*(chunk.source for _, _, chunk in chunks), *(note.obj for note in noted)]:
        return
    if chunks:
        yield Finding("overwritten", f"it was overwritten since, on {_clock(present.modified_ms)}: {_then(source)}")
    else:
        yield _of_present(ledger, source, present)


def _of_present(ledger: QueryLedger, source: S3Source, present: S3Object) -> Finding:
    """Return the finding about an object without a kept chunk."""
    seen = ledger.seen
    if seen is None:
        return Finding("unknown", "no kept manifest holds it; give --checkpoint to know if it was found before")
    new, overwritten = seen.sift([present])
    if overwritten:
        return Finding("overwritten", f"it was overwritten after it was found: {_then(source)}")
    if new:
        return Finding("not found yet", f"it was never seen; {_next_round(source)} finds it")
    if seen.remembers(present.key):
        return Finding(
            "read",
            "it was found, and nothing of it is left to read: its manifest is finished and no longer kept, or it held "
            "no row, or it existed when a query with includeExistingFiles = false began",
        )
    return Finding(
        "too old",
        f"its LastModified is {_clock(present.modified_ms)}, but objects are remembered only from "
        f"{_clock(seen.horizon_ms or 0)} on (maxFileAge): it was read long ago, or came too late to be found",
    )


def _of_memory(ledger: QueryLedger, key: str) -> Finding:
    if ledger.seen is not None and ledger.seen.remembers(key):
        return Finding("found", "it was found before, and no kept manifest holds it")
    return Finding(
        "unknown",
        "no kept manifest holds it; give --checkpoint and --option path=... to look further",
    )


def _then(source: S3Source) -> str:
    return f"{_next_round(source)} finds it again" if source.allow_overwrites else "allowOverwrites is false"


def _next_round(source: S3Source) -> str:
    misses = source.queue_url is not None
    return "the next listing of all objects at the latest" if misses else "the next discovery round"


def _clock(time_ms: int) -> str:
    return f"{clock_time(time_ms)} UTC"
