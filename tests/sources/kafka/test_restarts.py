"""A start at the latest offsets, over restarts."""

import pytest
from pyspark.errors import StreamingQueryException

from tests.support.streams import (
    NOON,
    append,
    available_now,
    finish,
    kafka_source,
    new_topic,
    start,
)


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
