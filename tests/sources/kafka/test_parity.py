"""The same columns, types and rows as Spark's built-in Kafka source."""

import pytest
from kafka import KafkaProducer

from tests.support.streams import HOUR, NOON, even_times, new_topic


@pytest.fixture(scope="module")
def topic(kafka):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 1000), [], even_times(NOON, NOON + HOUR, 10))
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for headers in ([], [("a", b"1")], [("a", b"1"), ("a", b""), ("ü", b"2")]):
        producer.send(topic, key=b"k", value=None, headers=headers, partition=1, timestamp_ms=NOON)
        producer.send(topic, key=None, value=b"", headers=headers, partition=1, timestamp_ms=NOON)
    producer.close()
    return topic


def both(spark, kafka, topic, **options):
    known = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, **options}
    return [spark.read.format(source).options(**known).load() for source in ("tidegate_kafka", "kafka")]


@pytest.mark.parametrize("include_headers", ["false", "true"])
def test_columns_types_and_rows_equal_those_of_the_built_in_source(spark, kafka, topic, include_headers):
    ours, built_in = both(spark, kafka, topic, includeHeaders=include_headers)
    assert ours.schema == built_in.schema
    assert ours.count() == 1016
    assert sorted(map(tuple, ours.collect()), key=str) == sorted(map(tuple, built_in.collect()), key=str)


@pytest.mark.parametrize(
    "options",
    [
        {
            "startingOffsets": '{"%s": {"0": 990, "1": -2, "2": 3}}',
            "endingOffsets": '{"%s": {"0": 995, "1": 2, "2": -1}}',
        },
        {"startingTimestamp": str(NOON + HOUR // 2), "startingOffsetsByTimestampStrategy": "latest"},
        {"startingTimestamp": str(NOON), "endingTimestamp": str(NOON + HOUR // 2)},
        {"endingOffsetsByTimestamp": '{"%s": {"0": 1700051400000, "1": 1, "2": 1700051400000}}'},
        {
            "startingOffsetsByTimestamp": '{"%s": {"0": -2, "1": -1, "2": 1700051400000}}',
            "endingOffsetsByTimestamp": '{"%s": {"0": 1700051400000, "1": -1, "2": -1}}',
        },
        {"subscribePattern": "%s.*"},
        {"assign": '{"%s": [0, 2]}'},
        {"minPartitions": "5"},
    ],
)
def test_options_mean_what_they_mean_to_the_built_in_source(spark, kafka, topic, options):
    asked = {name: value % topic if "%s" in value else value for name, value in options.items()}
    known = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **asked}
    if not asked.keys() & {"subscribePattern", "assign"}:
        known["subscribe"] = topic
    ours, built_in = (
        spark.read.format(source).options(**known).load().select("partition", "offset").collect()
        for source in ("tidegate_kafka", "kafka")
    )
    assert ours
    assert sorted(ours) == sorted(built_in)
