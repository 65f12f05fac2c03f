"""A query that runs every hour with AvailableNow, at default options: producers write between its runs."""

from datetime import timedelta

import pytest
from pyspark.sql.functions import window

from tests.support.streams import (
    HOUR,
    MINUTE,
    NOON,
    append,
    even_times,
    finish,
    kafka_source,
    new_topic,
)
from tidegate import WatermarkStrategy

RUNS, TRAILS_BY = 4, 3 * HOUR
HOURLY = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1))
DELAY = "61 minutes"  # out-of-orderness + max drift, and a little: at the delay itself, Spark's filter takes a row


def two_partitions(spark, kafka):
    topic = new_topic(kafka, [], [])
    source = kafka_source(kafka, topic, starting_offsets="earliest", watermarks=HOURLY)
    return source.read_stream(spark), [(topic, 0), (topic, 1)]


def two_topics_of_a_group(spark, kafka):
    topics = [new_topic(kafka, []), new_topic(kafka, [])]
    strategy = HOURLY.with_watermark_alignment(max_drift=timedelta(hours=1), group="hourly")
    first, second = (
        kafka_source(kafka, topic, starting_offsets="earliest", watermarks=strategy).read_stream(spark)
        for topic in topics
    )
    return first.union(second), [(topic, 0) for topic in topics]


@pytest.mark.parametrize("sources", [two_partitions, two_topics_of_a_group])
def test_no_row_of_a_producer_that_trails_by_more_than_the_drift_is_late(spark, kafka, tmp_path, sources):
    frame, written_to = sources(spark, kafka)
    counts = frame.withWatermark("timestamp", DELAY).groupBy(window("timestamp", "1 minute"), "topic").count()
    counted = {}

    def keep(batch, _):
        counted.update({(row["topic"], row["window"].start): row["count"] for row in batch.collect()})

    for hour in range(RUNS):
        for (topic, partition), trails_by in zip(written_to, (0, TRAILS_BY), strict=True):
            begin = NOON + hour * HOUR - trails_by
            append(kafka, topic, {partition: even_times(begin, begin + HOUR, HOUR // MINUTE)})
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path)).foreachBatch(keep)
        query = writer.trigger(availableNow=True).start()
        finish(query)
        assert sum(o.numRowsDroppedByWatermark for p in query.recentProgress for o in p.stateOperators) == 0
    # Of the one that is ahead, what is more than the drift ahead is left to the next run.
    behind = RUNS * HOUR // MINUTE
    assert behind <= sum(counted.values()) <= behind + (TRAILS_BY + HOUR) // MINUTE
