"""Functions for ``Elsewhere`` that call a stream's planner as Spark does.

A planner replaces the handler of SIGTERM, so this must not run in the kit's own process.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, ReadMinRows

from tidegate.enumerators.contract import Json
from tidegate.errors import DeadlineError
from tidegate.readers.contract import ReadTask
from tidegate.sources.bridge import Driver, data_source_class, schema_of
from tidegate.sources.contract import Source

__all__ = ["CORES", "PlannedBatch", "stream_by_limit"]

CORES = 2
_MOST = 300


@dataclass(frozen=True)
class PlannedBatch:
    """A batch that was planned and read.

    tasks, again: of the partitions, and of the partitions asked for again.
    read: the batches of the partitions.
    """

    start: Json
    end: Json
    tasks: list[ReadTask]
    again: list[ReadTask]
    read: list[pa.RecordBatch]


def stream_by_limit(source: Source, limit: ReadLimit, rows: int | None = None) -> list[PlannedBatch]:
    """Make batches as Spark does with Trigger.AvailableNow, or, with a ReadMinRows, with its own trigger.

    rows: end after so many; None: until there is nothing to do.
    """
    planner = _planner(source)
    bounded = not isinstance(limit, ReadMinRows)
    batches: list[PlannedBatch] = []
    try:
        if bounded:
            planner.prepareForTriggerAvailableNow()
        start = planner.initialOffset()
        for _ in range(_MOST):
            end = planner.latestOffset(start, limit)
            if end != start:
                batches.append(_batch(planner, source, start, end))
            if (bounded and end == start) or (rows is not None and sum(map(_rows_of, batches)) >= rows):
                return batches
            start = end
    finally:
        planner.stop()
    raise DeadlineError(f"{_MOST:,} plans with {limit} lead to no end")


def _rows_of(batch: PlannedBatch) -> int:
    return sum(part.num_rows for part in batch.read)


def _planner(source: Source) -> Any:
    kind = data_source_class("conformance", lambda _: source, Driver(CORES, "conformance"))
    return kind({}).streamReader(schema_of(source))


def _batch(planner: DataSourceStreamReader, source: Source, start: Json, end: Json) -> PlannedBatch:
    first, again = _sent(planner.partitions(start, end)), _sent(planner.partitions(start, end))
    # Executors have a copy of the reader that has planned nothing.
    reader = _planner(source)
    read = [batch for partition in first for batch in reader.read(partition)]
    return PlannedBatch(start, end, [sent.task for sent in first], [sent.task for sent in again], read)


def _sent(partitions: Any) -> Any:
    """Return partitions as executors get them."""
    return pickle.loads(pickle.dumps(partitions))  # noqa: S301 - our own
