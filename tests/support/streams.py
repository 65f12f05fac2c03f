"""Streaming queries for tests, run to the end and seen batch by batch; and topics with an archive of older records."""

import itertools
import json
from contextlib import contextmanager

import numpy as np
from pyspark.sql import SparkSession

from tests.support.command import PATIENCE_S
from tidegate import KafkaSource
from tidegate.enumerators.archive.listing import ParquetArchive
from tidegate.jobs.archive.pieces import copy, plan_archive
from tidegate.servers import write_history
from tidegate.sources.progress.query import QueryProgress

MINUTE = 60_000
HOUR = 60 * MINUTE
NOON = 1_700_049_600_000  # of 15 November 2023
_NAMES = (f"sources-{number}" for number in itertools.count())


def even_times(begin, end, count):
    """Return ``count`` times in ms that divide [begin, end) evenly."""
    return np.linspace(begin, end, count, endpoint=False).astype(np.int64)


def new_topic(kafka, *partitions, **configs):
    """Create a topic that holds records of the given event times, a list per partition."""
    topic = next(_NAMES)
    kafka.create_topic(topic, len(partitions), {name.replace("_", "."): value for name, value in configs.items()})
    append(kafka, topic, dict(enumerate(partitions)))
    return topic


def append(kafka, topic, partitions):
    """Write records of the given event times to partitions."""
    for partition, times in partitions.items():
        if len(times):
            write_history(kafka.bootstrap_servers, topic, partition, np.asarray(times, np.int64))


def kafka_source(server, topic, **fields):
    return KafkaSource(bootstrap_servers=server.bootstrap_servers, subscribe=[topic], **fields)


def finish(query):
    """Wait for the end of a bounded query, and until listeners know its batches; fail where it fails."""
    if not query.awaitTermination(PATIENCE_S):
        query.stop()
        raise AssertionError(f"the query did not end within {PATIENCE_S} s: {query.lastProgress}")
    SparkSession.getActiveSession().sparkContext._jsc.sc().listenerBus().waitUntilEmpty(int(PATIENCE_S * 1000))


def available_now(frame, checkpoint, on_batch=None):
    """Read all there is; return the rows of every batch that had any, as dicts."""
    batches = {}

    def keep(batch, number):
        batches[number] = [row.asDict() for row in batch.collect()]
        if on_batch is not None:
            on_batch(number)

    query = start(frame, checkpoint, keep, availableNow=True)
    finish(query)
    return Run(query, {number: rows for number, rows in batches.items() if rows})


def start(frame, checkpoint, sink, *, name=None, **trigger):
    """Start a query, and return it.

    sink: is called with each batch; or the format of a sink.
    name: of the query, and of the table that the sink ``memory`` makes.
    """
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(sink) if callable(sink) else writer.format(sink)
    writer = writer if name is None else writer.queryName(name)
    return (writer.trigger(**trigger) if trigger else writer).start()


@contextmanager
def running(query):
    """Stop the query at the end."""
    try:
        yield query
    finally:
        query.stop()


class Run:
    """What a finished query read.

    rows: by batch; batches without rows are left out.
    """

    def __init__(self, query, rows):
        self.query, self.rows = query, rows
        self.progress = {p.batchId: p for p in query.recentProgress}

    @property
    def all_rows(self):
        return [row for rows in self.rows.values() for row in rows]

    def offsets(self):
        """Return which records were read, as sorted (partition, offset)."""
        return sorted((row["partition"], row["offset"]) for row in self.all_rows)

    @property
    def bad_records(self):
        """How many bad records the last progress of the only source tells of."""
        (said,) = QueryProgress.parse(self.query.lastProgress.json).source_progress
        return said.bad_records_total

    def bound(self, batch):
        """Return the bound in the batch's end offset."""
        return parsed(self.progress[batch].sources[0].endOffset)["bound"]

    def furthest_ahead(self, time_of):
        """Return how far the latest row of any batch lies past the oldest that was unread before it, in ms.

        Counted from the rows alone, whatever the offsets say; the run has read all there was.
        time_of: takes a row and returns its event time in ms; None: it is not aligned by.
        """
        furthest, oldest_unread = 0, float("inf")
        for number in sorted(self.rows, reverse=True):
            times = [at_ms for row in self.rows[number] if (at_ms := time_of(row)) is not None]
            if times:
                oldest_unread = min(oldest_unread, *times)
                furthest = max(furthest, max(times) - oldest_unread)
        return furthest


def parsed(offset):
    return offset if isinstance(offset, dict) else json.loads(offset)


def milliseconds(timestamp):
    """Return the epoch milliseconds of a collected timestamp, which PySpark gives in local time."""
    return int(timestamp.timestamp() * 1000 + 0.5)


def every(counts):
    """Return all records of partitions that hold so many, as sorted (partition, offset)."""
    return [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


def committed_source(kafka, topic, **fields):
    """Return a source of all that an archive keeps."""
    return kafka_source(kafka, topic, include_headers=True, kafka={"isolation.level": "read_committed"}, **fields)


def archive_topic(kafka, topic, place):
    """Archive what Kafka holds now."""
    for piece in plan_archive(committed_source(kafka, topic, bad_event_time="ignore"), place).pieces:
        copy(piece)


def list_partition(place, topic, partition):
    """Return the directory of a partition."""
    return ParquetArchive(place).list_files([(topic, partition)], None).directories[topic, partition]


def delete_before(kafka, topic, offset, partition=0):
    """Let the retention of Kafka reach an offset."""
    kafka.delete_before(topic, {partition: offset})
