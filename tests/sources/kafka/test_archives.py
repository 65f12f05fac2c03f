"""Queries over a topic and its archive read what they would read from Kafka alone."""

from tests.sources.kafka.test_alignment import aligned
from tests.support.archives import archive_topic, delete_before
from tests.support.streams import (
    HOUR,
    NOON,
    append,
    available_now,
    even_times,
    every,
    kafka_source,
    milliseconds,
    new_topic,
)
from tidegate.readers.archive.place import ArchivePlace
from tidegate.sources.s3.connection import S3ConnectionOptions

DAY = 24 * HOUR
OLD = (2400, 800, 1200, 1200, 2, 1200, 0, 0)  # records of each partition in the archive
KEPT = (600, 400, 300, 300, 0, 300, 300, 300)  # those that come later
YEAR_2099_MS = 4_080_000_000_000
IN_BOTH = 100


def test_a_topic_with_an_archive_is_read_as_if_kafka_had_kept_it(spark, kafka, bucket, tmp_path):
    """Kafka keeps the last of four days.  Two partitions were added late, one is quiet, one has a record of 2099."""
    old = [even_times(NOON, NOON + 3 * DAY, count) for count in OLD]
    old[0][100] = YEAR_2099_MS
    topic = new_topic(kafka, *old)
    archive_topic(kafka, topic, ArchivePlace(bucket.path, S3ConnectionOptions(**bucket.connection).connection))
    new = (even_times(NOON + 3 * DAY, NOON + 4 * DAY, count) for count in KEPT)
    append(kafka, topic, dict(enumerate(new)))
    archive = {"archive": bucket.path, **{f"archive_{name}": value for name, value in bucket.connection.items()}}

    def rows(**fields):
        read = kafka_source(kafka, topic, include_headers=True, **fields).read(spark)
        return sorted(map(tuple, read.collect()), key=str)

    cut = {"starting_timestamp": NOON + DAY, "ending_timestamp": NOON + 2 * DAY}
    whole, of_a_day = rows(), rows(**cut)
    assert len(whole) == sum(OLD) + sum(KEPT) > len(of_a_day) > 1000
    for number, count in enumerate(OLD):
        delete_before(kafka, topic, max(0, count - IN_BOTH), number)
    assert len(rows()) == sum(KEPT) + sum(min(count, IN_BOTH) for count in OLD)
    assert rows(**archive) == whole
    assert rows(**cut, **archive) == of_a_day

    source = kafka_source(kafka, topic, **aligned(180, max_offsets_per_trigger=500), **archive)
    run = available_now(source.read_stream(spark).select("partition", "offset", "timestamp"), tmp_path)
    assert run.offsets() == every([old + kept for old, kept in zip(OLD, KEPT, strict=True)])
    times = {YEAR_2099_MS: None}
    assert run.furthest_ahead(lambda row: times.get(at := milliseconds(row["timestamp"]), at)) <= 3 * HOUR
