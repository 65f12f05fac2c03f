"""A topic and objects in one query, which keep together in event time.  ``kafka/test_groups.py`` has the join."""

from datetime import timedelta

from pyspark.sql import functions as f

import tidegate
from tests.support.streams import (
    HOUR,
    MINUTE,
    NOON,
    available_now,
    even_times,
    kafka_source,
    milliseconds,
    new_topic,
    parsed,
)
from tidegate import WatermarkStrategy

IN_AN_OBJECT = 30 * MINUTE  # an object is read whole


def test_a_topic_and_objects_are_read_once_and_keep_within_the_drift(spark, kafka, bucket, tmp_path):
    """The objects begin three hours after the topic, and were uploaded in another order."""
    times = {
        "topic": even_times(NOON - 3 * HOUR, NOON + 3 * HOUR, 1800),
        "objects": even_times(NOON, NOON + 3 * HOUR, 360),
    }
    for number in (3, 0, 5, 1, 4, 2):
        at = slice(60 * number, 60 * number + 60)
        bucket.put_rows(f"{number}.parquet", [(n, int(t)) for n, t in enumerate(times["objects"][at])])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
    shared = {"watermarks": strategy.with_watermark_alignment(max_drift=timedelta(hours=1), group="one query")}
    topic = kafka_source(kafka, new_topic(kafka, times["topic"]), starting_offsets="earliest", **shared)
    objects = tidegate.S3Source(
        path=bucket.path, event_time="column:at", state_location=str(tmp_path / "state"), **bucket.connection, **shared
    )
    both = topic.read_stream(spark).select(f.lit("topic").alias("source"), "timestamp")
    both = both.union(objects.read_stream(spark).select(f.lit("objects"), "at"))
    run = available_now(both, tmp_path / "checkpoint")
    read = sorted((row["source"], milliseconds(row["timestamp"])) for row in run.all_rows)
    assert read == sorted((source, int(at)) for source, of_source in times.items() for at in of_source)
    assert run.furthest_ahead(lambda row: milliseconds(row["timestamp"])) <= HOUR + IN_AN_OBJECT
    bounds = [
        [parsed(source.latestOffset)["bound"] for source in progress.sources] for progress in run.progress.values()
    ]
    of_both = [pair for pair in bounds if None not in pair]
    assert len(of_both) > 1, bounds
    assert [pair for pair in of_both if abs(pair[0] - pair[1]) > HOUR] == []
