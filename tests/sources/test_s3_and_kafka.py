"""A topic and objects in one query, which keep together in event time.  ``kafka/test_groups.py`` has the join."""

from datetime import datetime, timedelta, timezone

import numpy as np
from pyspark.sql import functions as f

import tidegate
from tests.support.pages import blocks
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
from tidegate.servers import write_history

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


def test_an_archive_without_offsets_is_cut_at_an_event_time(spark, kafka, bucket, tmp_path):
    """The objects hold four hours, and the topic has the records from the second hour on, out of order."""
    times, cut_ms = even_times(NOON, NOON + 6 * HOUR, 360), NOON + 3 * HOUR
    for hour in range(4):
        here = slice(60 * hour, 60 * hour + 60)
        bucket.put_rows(f"{hour}.parquet", list(zip(range(360)[here], times[here].tolist(), strict=True)))
    numbers = np.arange(120, 360)
    numbers[59], numbers[62] = numbers[62], numbers[59]
    topic = new_topic(kafka, [])
    digits = np.array([[*b"%06d" % number] for number in numbers], np.uint8)
    write_history(kafka.bootstrap_servers, topic, 0, times[numbers], values=digits)
    access = {"region": bucket.server.region, "endpoint": bucket.server.endpoint}
    access |= {"accessKey": bucket.server.access_key, "secretKey": bucket.server.secret_key}
    cut, earlier = (datetime.fromtimestamp(at / 1000, timezone.utc).isoformat() for at in (cut_ms, cut_ms - 3 * MINUTE))
    own = {
        "2026-11-01T00:00:00Z": cut,
        "startingTimestamp=cut": f"startingTimestamp='{earlier}'",
        "localhost:9092": kafka.bootstrap_servers,
        'subscribe="orders"': f'subscribe="{topic}"',
        "s3://lake/orders": bucket.path,
        "s3://lake/state": str(tmp_path / "state"),
        '.format("tidegate_s3")': f'.format("tidegate_s3").options(**{access})',
    }
    names = {"spark": spark}
    recipe = [block for block in blocks("docs/archive.md") if "unionByName" in block.text]
    recipe[0].with_own(own).run(names)
    run = available_now(names["orders"], tmp_path / "checkpoint")
    assert sorted(row["id"] for row in run.all_rows) == [*range(360)]
    assert run.furthest_ahead(lambda row: milliseconds(row["at"])) <= HOUR + IN_AN_OBJECT
