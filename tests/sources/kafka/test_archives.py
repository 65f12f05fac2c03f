"""Queries over a topic and its archive read what they would read from Kafka alone."""

from collections import Counter
from datetime import timedelta
from itertools import zip_longest

from pyspark.sql import functions as f

from tests.sources.kafka.test_alignment import aligned, dropped
from tests.support.command import await_that
from tests.support.streams import (
    HOUR,
    MINUTE,
    NOON,
    Run,
    append,
    archive_topic,
    committed_source,
    delete_before,
    even_times,
    finish,
    kafka_source,
    milliseconds,
    new_topic,
    parsed,
    running,
)
from tests.support.tables import Delta, Iceberg, fill
from tidegate.readers.places.place import Place

DAY = 24 * HOUR
OLD = (2400, 800, 1200, 1200, 2, 1200)  # records of each partition in the archive, of 28 days
KEPT = (600, 400, 300, 300, 0, 300, 300, 300)  # those of the two days that Kafka keeps; the last two partitions are new
SEAM, END = NOON + 28 * DAY, NOON + 30 * DAY
YEAR_2099_MS = 4_080_000_000_000
IN_BOTH = 100
DRIFT = 8 * DAY


def test_a_topic_with_an_archive_is_read_as_if_kafka_had_kept_it(spark, kafka, tmp_path):
    """Kafka keeps two of thirty days.  Two partitions are added late, one is quiet, one has a record of 2099."""
    old = [even_times(NOON, SEAM, count) for count in OLD]
    old[0][100] = YEAR_2099_MS
    topic = new_topic(kafka, *old)
    place = Place(str(tmp_path / "lake"))
    archive_topic(kafka, topic, place)
    delta, iceberg = Delta(tmp_path / "delta"), Iceberg(tmp_path / "iceberg")
    for table in (delta, iceberg):
        fill(table, committed_source(kafka, topic), OLD)
    kafka.add_partitions(topic, len(KEPT))
    new = [even_times(SEAM, END, count) for count in KEPT]
    append(kafka, topic, dict(enumerate(new)))
    archive, in_delta, in_iceberg = ({"archive": at} for at in (place.location, delta.location, iceberg.location))

    def rows(**fields):
        read = kafka_source(kafka, topic, include_headers=True, **fields).read(spark)
        found = (row.asDict() for row in read.collect())
        # pyiceberg writes an empty list in place of a null.
        return sorted((tuple({**row, "headers": row["headers"] or None}.values()) for row in found), key=str)

    whole = rows()
    assert len(whole) == sum(OLD) + sum(KEPT)
    for number, count in enumerate(OLD):
        delete_before(kafka, topic, max(0, count - IN_BOTH), number)
    for place_of_old in (archive, in_delta, in_iceberg):
        assert rows(**place_of_old) == whole

    source = kafka_source(kafka, topic, **soon_idle(DRIFT), include_event_time=True, **in_delta)
    windows = Windows(source.read_stream(spark), tmp_path / "of delta")

    def run_again():
        finish(windows.start(availableNow=True))
        delta.rewrite(sort=True)
        delta.forget()
        return windows.counts == hourly(old, new)

    await_that(run_again)  # the quiet partition holds back the others in the first run, and in a second one too soon
    source = kafka_source(kafka, topic, **soon_idle(DRIFT), include_event_time=True, **in_iceberg)
    windows = Windows(source.read_stream(spark), tmp_path / "live")
    with running(windows.start()) as query:
        await_that(lambda: windows.counts == hourly(old, new))
        later = [even_times(END, END + 2 * DAY, count) for count in KEPT]
        counts = [*map(sum, zip_longest(OLD, KEPT, fillvalue=0))]
        fill(iceberg, committed_source(kafka, topic), counts, [*OLD, *[0] * (len(KEPT) - len(OLD))])
        append(kafka, topic, dict(enumerate(later)))
        await_that(lambda: windows.counts == hourly(old, new, later))
        assert not dropped(query)
        ahead = read_by(query, old, new).furthest_ahead(lambda at: None if at == YEAR_2099_MS else at)
        assert 0 < ahead <= DRIFT


def soon_idle(drift):
    """Return the fields of alignment; the quiet partition does not hold the others for long."""
    fields = aligned(drift // MINUTE)
    return {**fields, "watermarks": fields["watermarks"].with_idleness(timedelta(seconds=1))}


def hourly(*parts):
    """Return the number of records of each partition in each hour; that of 2099 has no event time."""
    times = ((partition, at) for part in parts for partition, times in enumerate(part) for at in times.tolist())
    return Counter((partition, at // HOUR) for partition, at in times if at != YEAR_2099_MS)


def read_by(query, *parts):
    """Return what a query has read of records, as their times, by its offsets."""
    times = [[at for part in of_partition for at in part] for of_partition in zip_longest(*parts, fillvalue=())]
    rows = {}
    for progress in query.recentProgress:
        start, end = (parsed(at) or {} for at in (progress.sources[0].startOffset, progress.sources[0].endOffset))
        starts = start.get("positions", {})
        read = [times[int(s.rpartition("-")[2])][starts.get(s, 0) : at] for s, at in end["positions"].items()]
        rows[progress.batchId] = [at for of_partition in read for at in of_partition]
    return Run(query, rows)


class Windows:
    """A windowed count of a stream, which may be stopped and started again.

    counts: the records of each partition in each hour, as told last.
    """

    def __init__(self, rows, checkpoint):
        self.counts = {}
        of_hour = (f.window("event_time", "1 hour"), "partition")
        counted = rows.withWatermark("event_time", "193 hours").groupBy(*of_hour).count()
        self._writer = counted.writeStream.foreachBatch(self._keep).outputMode("update")
        self._writer = self._writer.option("checkpointLocation", str(checkpoint))

    def start(self, **trigger):
        return (self._writer.trigger(**trigger) if trigger else self._writer).start()

    def _keep(self, batch, _):
        for window, partition, count in batch.collect():
            self.counts[partition, milliseconds(window.start) // HOUR] = count
