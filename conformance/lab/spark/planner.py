"""Functions for ``Elsewhere`` that call a stream's planner as Spark does.

A planner replaces the handler of SIGTERM, so this must not run in the kit's own process.
"""

from __future__ import annotations

import pickle
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, ReadMinRows

from tidegate.enumerators.contract import Json
from tidegate.errors import DeadlineError
from tidegate.readers.contract import ReadTask
from tidegate.readers.events.event import EventChannel, SourceEvent
from tidegate.readers.events.send import send
from tidegate.sources.bridge import Driver, data_source_class, schema_of
from tidegate.sources.source import Source

__all__ = ["CORES", "ReadBatch", "Told", "stream_by_limit", "told_by_readers"]

CORES = 2
_MOST = 300
_ENDING_S = 2.0  # of threads that serve a connection
_OF_THE_CHANNEL = ("tidegate source events", "process_request_thread")


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


@dataclass(frozen=True)
class Told:
    """What became of the source events of a stream.

    read_here: how many positions the planner read itself for watermark generators.
    rows: how many rows readers reported, or the planner read.
    hears_strangers: somebody without the token was heard.
    is_open: the port took a connection after the stream was stopped.
    threads: of the channel, that had not ended by then.
    """

    read_here: int
    rows: int
    hears_strangers: bool
    is_open: bool
    threads: list[str]


def told_by_readers(source: Source, rows: int) -> Told:
    """Make batches of a source with watermark generators, as Spark does, until there is nothing to do.

    rows: how many rows there are; all of them can be discovered.
    """
    planner = _planner(source)
    channel, read = None, 0
    try:
        start = planner.initialOffset()
        for _ in range(_MOST):
            end = planner.latestOffset(start, ReadMinRows(1))
            if end == start and read >= rows:
                break
            if end != start:
                partitions = _sent(planner.partitions(start, end))
                executor = _planner(source)
                read += sum(batch.num_rows for partition in partitions for batch in executor.read(partition))
                channel = next((p.channel for p in partitions if p.channel is not None), channel)
            start = end
        if channel is None:
            raise DeadlineError(f"{_MOST:,} plans give readers no channel for source events")
        said = planner.reportLatestOffset()["generated"]
        stranger = EventChannel(channel.host, channel.port, b"another token")
        hears_strangers = send(stranger, [SourceEvent("a split", 0, 1, {"watermark": 1 << 60})])
    finally:
        planner.stop()
    return Told(said["readHere"], said["rows"], hears_strangers, _is_open(channel), _threads_of_the_channel())


def _is_open(channel: EventChannel) -> bool:
    try:
        socket.create_connection((channel.host, channel.port), 1.0).close()
    except OSError:
        return False
    return True


def _threads_of_the_channel() -> list[str]:
    """Return the names of the channel's threads that do not end in time."""
    until_s = time.monotonic() + _ENDING_S
    while threads := [t for t in threading.enumerate() if any(kind in t.name for kind in _OF_THE_CHANNEL)]:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            break
        threads[0].join(left_s)
    return [thread.name for thread in threads]


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
