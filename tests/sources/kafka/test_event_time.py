"""Event times from wherever they are, and rows without a usable one."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from kafka import KafkaProducer
from pyspark.sql import functions as f

from tests.support.streams import HOUR, NOON, available_now, even_times, every, milliseconds, new_topic
from tests.support.streams import kafka_source as source_of
from tidegate import WatermarkStrategy

YEAR_2099 = 4_070_908_800_000
ROWS = 120


HOURLY = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(max_drift=timedelta(hours=1))


def kafka_source(kafka, topic, **fields):
    return source_of(kafka, topic, watermarks=HOURLY, starting_offsets="earliest", **fields)


def event_time_of(row):
    """Return the event time of a collected row in ms; None: it has none to align by."""
    return None if row["event_time"] is None else milliseconds(row["event_time"])


def iso(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat()


def produce(kafka, topic, partition, records):
    """Send (value, headers) pairs with meaningless timestamps."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=20)
    for value, headers in records:
        producer.send(topic, value, key=b"k", partition=partition, headers=headers, timestamp_ms=NOON)
    producer.flush()
    producer.close()


def test_a_topic_is_aligned_by_event_times_in_its_payload(spark, kafka, tmp_path):
    histories = [even_times(NOON, NOON + 4 * HOUR, ROWS), even_times(NOON + 3 * HOUR, NOON + 4 * HOUR, ROWS)]
    topic = new_topic(kafka, [], [])
    for partition, times in enumerate(histories):
        values = [json.dumps({"created": iso(int(at) // 1000 * 1000)}).encode() for at in times]
        produce(kafka, topic, partition, [(value, []) for value in values])
    frame = kafka_source(kafka, topic, event_time="json:/created", include_event_time=True).read_stream(spark)
    run = available_now(frame.select("partition", "offset", "event_time"), tmp_path)
    assert run.offsets() == every([ROWS, ROWS])
    assert len(run.rows) >= 3
    for batch, rows in run.rows.items():
        assert max(milliseconds(row["event_time"]) for row in rows) < run.bound(batch)
    assert run.furthest_ahead(event_time_of) < HOUR
    for row in run.all_rows:
        assert milliseconds(row["event_time"]) == histories[row["partition"]][row["offset"]] // 1000 * 1000


def test_the_unit_is_detected_once_and_then_fixed(spark, kafka, tmp_path):
    topic = new_topic(kafka, [])
    produce(kafka, topic, 0, [(json.dumps({"at": NOON // 1000}).encode(), [])])
    source = kafka_source(kafka, topic, event_time="json:/at", include_event_time=True, bad_event_time="ignore")
    columns = ("partition", "offset", "event_time")
    first = available_now(source.read_stream(spark).select(*columns), tmp_path)
    produce(kafka, topic, 0, [(json.dumps({"at": NOON}).encode(), [])])
    second = available_now(source.read_stream(spark).select(*columns), tmp_path)
    assert [row["event_time"] and milliseconds(row["event_time"]) for row in first.all_rows + second.all_rows] == [
        NOON,
        None,
    ]


def test_rows_without_a_usable_time_are_delivered_under_a_policy(spark, kafka, tmp_path):
    topic = new_topic(kafka, [])
    values = [json.dumps({"at": NOON}).encode(), b"no json", b'{"at": -5}', None]
    produce(kafka, topic, 0, [(value, []) for value in values])
    source = kafka_source(kafka, topic, event_time="json:/at", bad_event_time="ignore", include_event_time=True)
    bad = f.expr("count_if(event_time_fault = 'bad') AS bad")  # as docs/reference/guarantees.md has it
    observed = source.read_stream(spark).observe("event_times", bad)
    run = available_now(observed.select("partition", "offset", "event_time", "event_time_fault"), tmp_path)
    assert sum(p.observedMetrics["event_times"].bad for p in run.progress.values() if p.observedMetrics) == 3
    assert sorted(str(row["event_time_fault"]) for row in run.all_rows) == ["None", "bad", "bad", "bad"]
    times_by_offset = {row["offset"]: row["event_time"] and milliseconds(row["event_time"]) for row in run.all_rows}
    assert [times_by_offset[offset] for offset in range(4)] == [NOON, None, None, None]


class TestFutureTimes:
    """One record of the year 2099 among those of noon: by-time lookups go blind there."""

    @pytest.fixture
    def topic(self, kafka):
        before, after = even_times(NOON, NOON + HOUR, 50), even_times(NOON + HOUR, NOON + 4 * HOUR, 150)
        return new_topic(kafka, [*before, YEAR_2099, *after], even_times(NOON, NOON + 4 * HOUR, 200))

    def test_by_default_it_neither_parks_its_partition_nor_moves_the_watermark(self, spark, kafka, tmp_path, topic):
        source = kafka_source(kafka, topic, include_event_time=True)
        columns = ("partition", "offset", "timestamp", "event_time", "event_time_fault")
        run = available_now(source.read_stream(spark).select(*columns), tmp_path)
        assert run.offsets() == every([201, 200])
        assert [row["event_time_fault"] for row in run.all_rows if row["event_time_fault"]] == ["future"]
        assert len(run.rows) >= 4
        for batch, rows in run.rows.items():
            times = [milliseconds(row["event_time"]) for row in rows if row["event_time"] is not None]
            assert max(times) < run.bound(batch)
            assert (run.watermark_before(batch) or 0) < NOON + 4 * HOUR
        assert run.furthest_ahead(event_time_of) < HOUR
        assert [milliseconds(row["timestamp"]) for row in run.all_rows if row["event_time"] is None] == [YEAR_2099]
