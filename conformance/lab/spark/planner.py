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
from tidegate.sources.source import Source

__all__ = ["CORES", "ReadBatch", "stream_by_limit"]

CORES = 2
_MOST = 300


@dataclass(frozen=True)
class ReadBatch:
    """A batch that was planned and read.

    tasks, again: of the partitions, and of the partitions asked for again.
    read: the batches of the partitions.
    """

    start: Json
    end: Json
    tasks: list[ReadTask]
    again: list[ReadTask]
    read: list[pa.RecordBatch]


def stream_by_limit(source: Source, limit: ReadLimit, rows: int | None = None) -> list[ReadBatch]:
    """Make batches as Spark does with Trigger.AvailableNow, or, with a ReadMinRows, with its own trigger.

    rows: end after this number of rows; None: until there is nothing to do.

    Raises DeadlineError if many plans in a row lead to no rows.  A small limit may give a row many plans: where
    positions are bytes, each takes one byte.
    """
    planner = _planner(source)
    bounded = not isinstance(limit, ReadMinRows)
    batches: list[ReadBatch] = []
    try:
        if bounded:
            planner.prepareForTriggerAvailableNow()
        start = planner.initialOffset()
        fruitless = 0
        while fruitless < _MOST:
            end = planner.latestOffset(start, limit)
            if end != start:
                batches.append(_batch(planner, source, start, end))
            fruitless = 0 if end != start and _rows_of(batches[-1]) else fruitless + 1
            if (bounded and end == start) or (rows is not None and sum(map(_rows_of, batches)) >= rows):
                return batches
            start = end
    finally:
        planner.stop()
    raise DeadlineError(f"{_MOST:,} plans in a row with {limit} lead to no rows and to no end")


def _rows_of(batch: ReadBatch) -> int:
    return sum(part.num_rows for part in batch.read)


def _planner(source: Source) -> Any:
    kind = data_source_class("conformance", lambda _: source, Driver(CORES, "conformance"))
    return kind({}).streamReader(schema_of(source))


def _batch(planner: DataSourceStreamReader, source: Source, start: Json, end: Json) -> ReadBatch:
    first, again = _sent(planner.partitions(start, end)), _sent(planner.partitions(start, end))
    # Executors have a copy of the reader that has planned nothing.
    reader = _planner(source)
    read = [batch for partition in first for batch in reader.read(partition)]
    return ReadBatch(start, end, [sent.task for sent in first], [sent.task for sent in again], read)


def _sent(partitions: Any) -> Any:
    """Return partitions as executors get them."""
    return pickle.loads(pickle.dumps(partitions))  # noqa: S301 - our own
