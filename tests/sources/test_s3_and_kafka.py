"""A join of a topic and of objects, which keep together in event time."""

from datetime import timedelta

from pyspark.sql.functions import expr

import tidegate
from tests.support.streams import HOUR, MINUTE, NOON, even_times, finish, kafka_source, milliseconds, new_topic, parsed
from tidegate import WatermarkStrategy

DRIFT = timedelta(hours=1)


def test_a_join_of_a_topic_and_of_objects_loses_no_match(spark, kafka, bucket, tmp_path):
    """The objects begin three hours after the topic, and were uploaded in another order."""
    topic_times = even_times(NOON - 3 * HOUR, NOON + 3 * HOUR, 1800)
    object_times = even_times(NOON, NOON + 3 * HOUR, 360)
    for number in (3, 0, 5, 1, 4, 2):
        at = slice(60 * number, 60 * number + 60)
        bucket.put_rows(f"{number}.parquet", [(n, int(t)) for n, t in enumerate(object_times[at])])

    def strategy():
        return WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1)).with_watermark_alignment(
            max_drift=DRIFT, group="join"
        )

    shared = {"watermarks": strategy(), "include_source_watermark": True, "watermark_rows": True}
    events = kafka_source(kafka, new_topic(kafka, topic_times), starting_offsets="earliest", **shared)
    objects = tidegate.S3Source(
        path=bucket.path, event_time="column:at", state_location=str(tmp_path / "state"), **bucket.connection, **shared
    )
    left = tidegate.with_source_watermark(events.read_stream(spark), "timestamp", "1 minute").alias("l")
    right = tidegate.with_source_watermark(objects.read_stream(spark), "at", "31 minutes").alias("r")
    near = "l.partition = 0 * r.id and l.timestamp between r.at - interval 1 minute and r.at + interval 1 minute"
    joined = left.join(right, expr(near)).select(expr("l.timestamp as one"), expr("r.at as other"))
    query = (
        joined.writeStream.format("memory")
        .queryName("topic_and_objects")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)
    found = sorted(
        (milliseconds(r["one"]), milliseconds(r["other"])) for r in spark.table("topic_and_objects").collect()
    )
    assert found == sorted((int(a), int(b)) for a in topic_times for b in object_times if abs(a - b) <= MINUTE)
    for progress in query.recentProgress:
        bounds = [parsed(source.latestOffset)["bound"] for source in progress.sources]
        assert None in bounds or abs(bounds[0] - bounds[1]) <= HOUR
