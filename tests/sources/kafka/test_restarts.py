"""Exactly once, whatever dies: broker, or the first batch.  ``tests/sources/test_kills.py`` kills drivers."""

import pytest
from pyspark.errors import StreamingQueryException

from tests.sources import kills
from tests.support.streams import (
    HOUR,
    NOON,
    append,
    available_now,
    even_times,
    every,
    finish,
    kafka_source,
    new_topic,
    running,
    start,
)
from tests.support.waiting import await_that


def test_a_broker_that_is_killed_in_mid_read_and_restarted_costs_and_doubles_nothing(spark, kafka, tmp_path):
    counts = [12_000, 12_000]
    topic = new_topic(kafka, *(even_times(NOON, NOON + 12 * HOUR, count) for count in counts))
    frame = kafka_source(kafka, topic, starting_offsets="earliest", max_offsets_per_trigger=6_000).read_stream(spark)
    query = (
        frame.writeStream.format("parquet")
        .option("path", f"{tmp_path}/data")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    with running(query):
        await_that(lambda: kills.commits(tmp_path) >= 2 or not query.isActive)
        assert query.isActive, query.exception()
        kafka.kill()
        kafka.restart()
        finish(query)
    assert kills.written(spark, tmp_path) == every(counts)


def test_latest_is_fixed_once_even_when_the_first_run_sees_no_data(spark, kafka, tmp_path):
    topic = new_topic(kafka, [NOON] * 10)
    frame = kafka_source(kafka, topic).read_stream(spark).select("partition", "offset")
    assert available_now(frame, tmp_path).offsets() == []
    append(kafka, topic, {0: [NOON] * 5})
    assert available_now(frame, tmp_path).offsets() == [(0, offset) for offset in range(10, 15)]
    assert available_now(frame, tmp_path).offsets() == []


def test_latest_is_fixed_once_even_when_the_first_batch_fails(spark, kafka, tmp_path):
    topic = new_topic(kafka, [NOON] * 10)
    frame = kafka_source(kafka, topic).read_stream(spark).select("partition", "offset")

    def fail(_, number):
        raise RuntimeError(f"batch {number} is refused")

    with pytest.raises(StreamingQueryException, match="is refused"):
        finish(start(frame, tmp_path, fail, availableNow=True))
    append(kafka, topic, {0: [NOON] * 5})
    assert available_now(frame, tmp_path).offsets() == [(0, offset) for offset in range(10, 15)]
