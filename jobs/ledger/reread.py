"""Asking a query to read objects, or batches, again."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.s3.manifests.chunk_sorter import ChunkSorter
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.state.rereads import request_reread
from tidegate.errors import CheckpointError, OptionError
from tidegate.jobs.ledger.listed import Wanted, listed
from tidegate.jobs.ledger.query_ledger import QueryLedger
from tidegate.jobs.ledger.why import find_chunks
from tidegate.readers.objects.values import Chunk, S3Object
from tidegate.sources.s3.discovery import epoch_ms
from tidegate.sources.s3.source import S3Source

__all__ = ["Asked", "reread_batches", "reread_objects"]

_BATCHES = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query was asked to read again.

    request: its name.
    chunk: what it holds, as one manifest.
    waiting: objects, or parts of them, that were left out, for the query has yet to read them.
    """

    request: str
    chunks: Manifest
    waiting: int = 0


def reread_objects(
    ledger: QueryLedger, source: S3Source, wanted: Wanted, begin: datetime | None = None, end: datetime | None = None
) -> Asked:
    """Ask for the objects that are meant, as they are now: those that the query has found before.

    begin, end: only chunks with event times from the one up to the other, exclusive.

    Raises OptionError when there are none, and when the query cleans what it reads.
    """
    _refuse_cleaned(ledger)
    seen = ledger.seen
    if seen is None:
        raise OptionError("to read objects again, --checkpoint has to hold a batch that says which were found")
    rules = source.listing_rules
    candidates = [found for found in listed(source, wanted) if found.key.startswith(rules.prefix)]
    candidates = [found for found in candidates if rules.takes(found)]
    new = {found.key for found in seen.sift(candidates)[0]}
    known = [found for found in candidates if found.key not in new]
    times = {"starting_timestamp": begin, "ending_timestamp": end}
    timed = source.model_copy(update={name: epoch_ms(time) for name, time in times.items() if time is not None})
    found = Manifest.build(0, timed.discovery(lambda: (page for page in [known])).round())
    waiting = _waiting(ledger, wanted)
    chunks = found.chunks(0, len(found))
    chunks = chunks.filter(pa.array([chunk not in waiting for chunk in _keys(chunks)], pa.bool_()))
    if not chunks.num_rows:
        detail = "what is meant has yet to be read" if len(found) else "none that was found before, and holds such rows"
        raise OptionError(f"there is nothing to read again of {wanted.text!r}: {detail}")
    return _ask(ledger, chunks, len(found) - chunks.num_rows)


def reread_batches(ledger: QueryLedger, batches: str) -> Asked:
    """Ask for what some batches have read, such as ``7`` or ``3-5``: the same versions of the same objects.

    Raises OptionError when Spark, or the state location, no longer knows one of them, and when the query cleans
    what it reads.
    """
    _refuse_cleaned(ledger)
    named = _BATCHES.fullmatch(batches.strip())
    if named is None:
        raise OptionError(f"--batches is {batches!r}, but a number or a range is expected, such as 7 or 3-5")
    first, last = int(named[1]), int(named[2] or named[1])
    ends = {batch.number: batch.end for batch in ledger.batches or () if batch.is_committed}
    ends[-1] = Offset()
    parts = []
    for number in range(first, last + 1):
        if number not in ends or number - 1 not in ends:
            known = sorted(number for number in ends if number >= 0 and number - 1 in ends)
            told = f"it knows {known[0]} to {known[-1]}" if known else "it knows none"
            raise OptionError(f"batch {number} is none that is written and that Spark still knows; {told}")
        parts += _of_batch(ledger, number, ends[number - 1], ends[number])
    if not parts:
        raise OptionError(f"the batches {batches} have read nothing")
    return _ask(ledger, pa.Table.from_batches(parts).combine_chunks())


def _refuse_cleaned(ledger: QueryLedger) -> None:
    if ledger.state is not None and ledger.state.clean is not None:
        raise OptionError("the query cleans what it has read (cleanSource), so that nothing can be read again")


def _of_batch(ledger: QueryLedger, number: int, before: Offset, after: Offset) -> list[pa.RecordBatch]:
    parts = []
    for split, end in after.progress.positions.items():
        start = after.start_of(split, before)
        if start < end:
            parts.append(_manifest(ledger, split, number).chunks(start, end))
    return parts


def _manifest(ledger: QueryLedger, split: SplitId, batch: int) -> Manifest:
    try:
        return Manifest.parse(split, ledger.ledger.read(split))
    except CheckpointError as error:
        raise OptionError(
            f"batch {batch} has read the manifest {split}, which is finished and no longer kept; name its objects, or "
            "their event times by --from and --to"
        ) from error


def _ask(ledger: QueryLedger, chunks: pa.Table | pa.RecordBatch, waiting: int = 0) -> Asked:
    sorter = ChunkSorter()
    sorter.add(chunks)
    now_ms = int(time.time() * 1000)
    return Asked(request_reread(ledger.ledger, sorter, now_ms), Manifest.build(now_ms, sorter), waiting)


def _waiting(ledger: QueryLedger, wanted: Wanted) -> set[tuple[S3Object, int]]:
    """Return the chunks that are meant and that the query has yet to read."""
    return {
        (chunk.source, chunk.start)
        for split, read in ledger.planned.items()
        if split in ledger.manifests
        for position, chunk in find_chunks(ledger, split, wanted)
        if position >= read
    }


def _keys(chunks: pa.RecordBatch) -> list[tuple[S3Object, int]]:
    found = (Chunk(*fields) for fields in zip(*chunks.to_pydict().values(), strict=True))
    return [(chunk.source, chunk.start) for chunk in found]
