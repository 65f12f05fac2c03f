"""Watermarks of a user's generators, through Spark and a real broker."""

from datetime import timedelta

import pytest
from kafka import KafkaProducer

import tidegate
from tests.sources.memory import MemorySource
from tests.support.streams import (
    NOON,
    kafka_source,
    new_topic,
    parsed,
    running,
    start,
)
from tests.support.waiting import await_that
from tidegate import WatermarkStrategy
from tidegate.errors import OptionError
from tidegate.watermarks import RowWatermarkGenerator

SECOND = 1000


class EveryTenth(RowWatermarkGenerator):
    """Emits the time of each tenth row: it must see all rows, each once."""

    def __init__(self):
        self.rows = 0

    def on_row(self, row, event_time_ms, output):
        self.rows += 1
        if self.rows % 10 == 0:
            output.emit_watermark(event_time_ms)

    def snapshot(self):
        return {"rows": self.rows}

    def restore(self, state):
        self.rows = state["rows"]


def generated(kafka, topic, supplier, **fields):
    return kafka_source(
        kafka, topic, watermarks=WatermarkStrategy.for_generator(supplier), starting_offsets="earliest", **fields
    )


def end_watermarks(query):
    """Return the source's watermark in the end offset of each batch."""
    return [parsed(p.sources[0].endOffset).get("watermark") for p in query.recentProgress]


def said(query):
    return tidegate.progress(query)[0].generated


def test_a_mark_in_a_header_moves_the_watermark_and_nothing_else_does(spark, kafka, tmp_path):
    topic = new_topic(kafka, [NOON], [NOON])
    frame = (
        spark.readStream.format("tidegate_kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("watermarkFrom", "header:complete")  # which implies includeHeaders
        .load()
    )
    assert "headers" in frame.columns
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    def send(partition, time_ms, complete=None):
        headers = [] if complete is None else [("complete", complete.encode())]
        producer.send(topic, b"x", partition=partition, timestamp_ms=time_ms, headers=headers).get(60)

    query = start(frame, tmp_path, lambda rows, _: rows.count())
    with running(query):
        await_that(lambda: query.lastProgress and query.lastProgress.numInputRows == 0)
        send(0, NOON + 90 * SECOND)
        send(1, NOON + 90 * SECOND, complete=str(NOON + 60 * SECOND))
        await_that(lambda: sum(p.numInputRows for p in query.recentProgress) == 4)
        assert set(end_watermarks(query)) == {None}  # partition 0 has no watermark yet
        send(0, NOON + 95 * SECOND, complete="2023-11-15T12:00:30Z")
        await_that(lambda: end_watermarks(query)[-1] == NOON + 30 * SECOND)
        assert set(end_watermarks(query)) == {None, NOON + 30 * SECOND}
        await_that(lambda: said(query).held_by == f"{topic}-0")
        assert said(query).read_here == 0
    producer.close()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"watermark_from": "heder:x"}, "did you mean 'header:'"),
        ({"watermark_from": "timestamp"}, "expected header:NAME, json:/pointer/into/value, or avro: or protobuf:"),
        (
            {
                "watermark_from": "json:/at",
                "watermarks": WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)),
            },
            "watermarkFrom and maxOutOfOrderness exclude each other",
        ),
        (
            {"watermark_from": "json:/at", "watermarks": WatermarkStrategy.for_generator(EveryTenth)},
            "watermarkFrom is set, and watermarks has a generator",
        ),
    ],
)
def test_a_wrong_option_is_one_sentence(fields, sentence):
    with pytest.raises(OptionError, match=sentence):
        tidegate.KafkaSource(bootstrap_servers="localhost:9092", subscribe=["orders"], **fields)


def test_a_timestamp_assigner_of_the_strategy_is_the_event_time_of_the_source():
    strategy = WatermarkStrategy.for_generator(EveryTenth).with_timestamp_assigner("json:/at")
    fields = {"bootstrap_servers": "localhost:9092", "subscribe": ["orders"]}
    source = tidegate.KafkaSource(**fields, watermarks=strategy)
    assert source == tidegate.KafkaSource(**fields, watermarks=strategy, event_time="json:/at")
    assert source.event_time == "json:/at"
    objects = tidegate.S3Source(path="s3://b/p", watermarks=strategy.with_timestamp_assigner("column:at"))
    assert objects.event_time == "column:at"
    with pytest.raises(OptionError, match="event_time is set, and watermarks has a timestamp assigner; set one"):
        tidegate.KafkaSource(**fields, watermarks=strategy, event_time="timestamp")
    with pytest.raises(OptionError, match="json"):
        tidegate.S3Source(path="s3://b/p", watermarks=strategy)
    with pytest.raises(OptionError, match="a timestamp assigner, but memory has no option event_time"):
        MemorySource(path="x", watermarks=strategy)


@pytest.mark.parametrize(
    "fields",
    [
        {"watermarks": WatermarkStrategy.for_generator(EveryTenth)},
        {"watermark_from": "json:/at", "watermarks": WatermarkStrategy.no_watermarks()},
    ],
)
def test_windows_go_by_generated_watermarks_too(fields):
    source = tidegate.KafkaSource(bootstrap_servers="localhost:9092", subscribe=["orders"], **fields)
    assert source.has_watermarks
