"""Looks at objects: the survey that the planner makes, in the order in which Spark's own file source reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import Positions, SplitId
from tidegate.enumerators.s3.enumerator import S3Enumerator
from tidegate.enumerators.s3.times.origin import ColumnTimes
from tidegate.jobs.preview.findings import aligned, by_modification
from tidegate.jobs.preview.seen import History, Seen, evenly_spread
from tidegate.readers.objects.values import CHUNK_SCHEMA
from tidegate.sources.s3.source import S3Source

_PARTS = 40
_SPARKS_ORDER = [("modified_ms", "ascending"), ("key", "ascending"), ("start", "ascending")]
_ALL = "objects"


def look_at_objects(source: S3Source) -> Seen:
    """Return what a survey tells of the objects under a path.

    Raises OptionError without any, and the errors of a discovery round.
    """
    quiet = {
        "bad_event_time": "ignore",
        "bad_records_path": None,
        "clean_source": "off",
        "include_existing_files": True,
    }
    source = source.model_copy(update=quiet).as_batch()
    with closing(source.enumerator(None)) as enumerator:
        assert isinstance(enumerator, S3Enumerator)  # noqa: S101 - of an S3Source
        extents = enumerator.extents(enumerator.discover())
    found = [enumerator.manifest(split).chunks(0, extent.end) for split, extent in extents.items()]
    planned = pa.Table.from_batches(found, CHUNK_SCHEMA)
    objects = in_sparks_order(planned)
    is_timed = planned["min_ms"].is_valid().to_numpy()
    rows_before = np.concatenate([[0], np.cumsum(planned["rows"].to_numpy() * is_timed)])

    def by_tidegate(max_drift_ms: int, budget: Budget) -> Iterator[Positions]:
        for positions in aligned(enumerator, extents, max_drift_ms, budget, cost=enumerator.cost):
            yield {_ALL: int(rows_before[sum(positions.values())])}  # a batch query has one manifest

    return Seen(
        histories=objects.histories,
        by_spark=lambda budget: by_modification(objects.histories, objects.rows, objects.sizes, budget),
        planned={_ALL: _history(planned, 0)} if objects.histories else {},
        by_tidegate=by_tidegate,
        budget=source.budget,
        units=len(objects.sizes),
        bytes_per_row=int(objects.sizes.sum()) / max(1, int(rows_before[-1])),
        now_ms=time.time_ns() // 1_000_000,
        notes=objects.notes,
        judged_by=f"eventTime = {source.event_time}",
        are_objects=True,
        column=source.event_time_origin.name if isinstance(source.event_time_origin, ColumnTimes) else "event_time",
    )


class Objects(NamedTuple):
    """Objects with event times, in the order of their modification, and by key where that is the same.

    sizes, rows: those of each object.
    histories: the rows of equal parts of the objects; positions count the rows of all.
    notes: the first object of each part.
    """

    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]
    histories: Mapping[SplitId, History]
    notes: Mapping[SplitId, list[str]]


def in_sparks_order(chunks: pa.Table) -> Objects:
    """Return the objects of some chunks, as columns of CHUNK_SCHEMA."""
    chunks = chunks.filter(chunks["min_ms"].is_valid()).sort_by(_SPARKS_ORDER)
    keys = chunks["key"].to_numpy()
    if not len(keys):
        return Objects(np.zeros(0, np.int64), np.zeros(0, np.int64), {}, {})
    firsts = np.flatnonzero([True, *(keys[1:] != keys[:-1])])
    begins, number = [*firsts, len(keys)], min(_PARTS, len(firsts))
    rows = np.add.reduceat(chunks["rows"].to_numpy(), firsts)
    before = [0, *np.cumsum(rows)]
    newest_ms = np.maximum.accumulate(np.maximum.reduceat(chunks["max_ms"].to_numpy(), firsts))
    behind_ms = newest_ms[:-1] - np.minimum.reduceat(chunks["min_ms"].to_numpy(), firsts)[1:]
    histories, notes = {}, {}
    for part in range(number):
        first, end = part * len(firsts) // number, (part + 1) * len(firsts) // number
        split = f"{_ALL}-{first + 1}"
        disorder_ms = int(behind_ms[max(0, first - 1) : end - 1].max(initial=0))
        inside = chunks.slice(begins[first], begins[end] - begins[first])
        histories[split] = replace(_history(inside, int(before[first])), disorder_ms=disorder_ms)
        notes[split] = [f"from {keys[begins[first]]}"]
    return Objects(chunks["size"].to_numpy()[firsts], rows, histories, notes)


def _history(chunks: pa.Table, start: int) -> History:
    timed = chunks.filter(chunks["min_ms"].is_valid())
    return evenly_spread(start, *(timed[name].to_numpy() for name in ("rows", "min_ms", "max_ms")))
