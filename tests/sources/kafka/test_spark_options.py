"""As Spark's built-in Kafka source: options, columns, types, rows, starts and batch queries."""

import logging

import pytest
from kafka import KafkaProducer

from tests.sources.test_time_options import of
from tests.support.streams import (
    HOUR,
    NOON,
    append,
    available_now,
    even_times,
    kafka_source,
    new_topic,
)
from tidegate.enumerators.kafka.offsets import ByTimestamp
from tidegate.errors import OptionError
from tidegate.readers.kafka.client import EARLIEST
from tidegate.readers.kafka.config import TopicPartition
from tidegate.sources.kafka.java.table import NO_GROUP

BY_TIME, BY_OFFSET = '{"orders": {"0": 17}}', '{"orders": {"0": 3}}'
ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize("which", ["starting", "ending"])
@pytest.mark.parametrize(
    ("options", "point", "unused"),
    [
        ({"Offsets": BY_OFFSET}, 3, []),
        ({"Offsets": BY_OFFSET, "OffsetsByTimestamp": BY_TIME}, ByTimestamp(17), ["Offsets"]),
        ({"OffsetsByTimestamp": BY_TIME, "Timestamp": "5"}, ByTimestamp(5), ["OffsetsByTimestamp"]),
        ({"Offsets": BY_OFFSET, "Timestamp": "5"}, ByTimestamp(5), ["Offsets"]),
    ],
)
def test_a_time_comes_before_offsets_and_a_time_of_all_partitions_before_those_of_each(which, options, point, unused):
    source = of(**{f"{which}{name}": value for name, value in options.items()})
    enumerator = source.enumerator(None)
    assert {"starting": enumerator._starting, "ending": enumerator._stopping}[which].point(ORDERS) == point
    assert [text.split()[0] for text in source.without_effect] == [f"{which}{name}" for name in unused]


@pytest.mark.parametrize("offsets", ["latest", BY_OFFSET, '{"orders": {"0": -1}}'])
def test_an_end_by_offsets_beside_a_time_changes_nothing_and_is_said_to(offsets):
    source = of(endingTimestamp="5", endingOffsets=offsets)
    assert source.enumerator(None)._stopping == of(endingTimestamp="5").enumerator(None)._stopping
    assert source.without_effect == ["endingOffsets (endingTimestamp comes before it)"]


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        ({"Timestamp": "6"}, {"Timestamp": "5"}, "startingTimestamp is 6, after endingTimestamp, which is 5"),
        (
            {"Offsets": BY_OFFSET},
            {"Offsets": '{"orders": {"0": 2}}'},
            "startingOffsets is 3 for partition orders-0, after endingOffsets, which is 2",
        ),
        (
            {"Timestamp": "18"},
            {"OffsetsByTimestamp": BY_TIME},
            "startingTimestamp is 18 for partition orders-0, after endingOffsetsByTimestamp, which is 17",
        ),
    ],
)
def test_a_start_after_the_end_is_refused(start, end, sentence):
    options = {f"starting{name}": value for name, value in start.items()}
    with pytest.raises(OptionError) as raised:
        of(**options, **{f"ending{name}": value for name, value in end.items()})
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": "5", "endingTimestamp": "5"},
        {"startingOffsets": BY_OFFSET, "endingOffsets": '{"orders": {"0": -1}}'},
        {"startingOffsets": '{"orders": {"0": -1}}', "endingOffsets": BY_OFFSET},
        {"startingTimestamp": "5", "endingOffsets": BY_OFFSET},
        {"startingOffsetsByTimestamp": BY_TIME, "endingOffsets": BY_OFFSET},
        {"startingOffsets": BY_OFFSET, "startingTimestamp": "0", "endingOffsets": '{"orders": {"0": 1}}'},
    ],
)
def test_a_start_that_may_be_before_the_end_is_accepted(options):
    assert of(**options).enumerator(None) is not None


def test_a_batch_query_begins_at_the_earliest_offset_unless_a_time_comes_before_it():
    assert of().as_batch().starting_offsets == "earliest"
    assert of(startingTimestamp="5").as_batch().starting_offsets is None
    assert of(startingOffsets="latest", startingTimestamp="5").as_batch().starting_timestamp == 5
    with pytest.raises(OptionError, match="a batch query would read nothing"):
        of(startingOffsets="latest").as_batch()
    assert of().as_batch().enumerator(None)._starting.point(ORDERS) == EARLIEST


def test_what_has_no_effect_is_said_once_for_all_when_a_run_begins(caplog):
    source = of(groupIdPrefix="reports", fetchOffset__numRetries="3", startingOffsets="earliest", startingTimestamp="5")
    with caplog.at_level(logging.WARNING):
        source.enumerator(None)
    (record,) = caplog.records
    assert record.getMessage() == (
        "these options have no effect: fetchOffset.numRetries (kafka.default.api.timeout.ms limits every operation, "
        f"with all retries), groupIdPrefix ({NO_GROUP}), startingOffsets (startingTimestamp comes before it)"
    )
    caplog.clear()
    of(startingOffsets="earliest").enumerator(None)
    assert not caplog.records


@pytest.fixture
def topic_of_uses(kafka):
    return new_topic(kafka, even_times(NOON, NOON + HOUR, 10), even_times(NOON, NOON + HOUR, 20))


def test_filters_of_one_use_of_a_dataframe_leave_the_others_alone(spark, kafka, topic_of_uses):
    frame = kafka_source(kafka, topic_of_uses, starting_offsets="earliest").read(spark)
    first, second = frame.where("partition = 0"), frame.where("partition = 1")
    united = first.union(second)
    assert sorted(row.partition for row in united.collect()) == [0] * 10 + [1] * 20
    assert (first.count(), frame.count(), second.count()) == (10, 30, 20)
    frame.createOrReplaceTempView("uses")
    in_view = "select (select count(*) from uses where partition = 0), count(*) from uses where offset >= 5"
    assert tuple(*spark.sql(in_view).collect()) == (10, 20)


def test_a_dataframe_is_fixed_at_its_first_action_until_it_is_loaded_again(spark, kafka, topic_of_uses):
    source = kafka_source(kafka, topic_of_uses, starting_offsets="earliest")
    frame = source.read(spark)
    assert frame.count() == 30
    append(kafka, topic_of_uses, {0: even_times(NOON, NOON + HOUR, 5)})
    # Spark keeps the partitions of the first plan with the loaded source (docs/spark.md).
    frame.createOrReplaceTempView("uses")
    assert (frame.count(), frame.where("offset >= 0").count(), spark.table("uses").count()) == (30, 30, 30)
    assert source.read(spark).count() == 35


def test_latest_is_fixed_once_even_when_the_first_run_sees_no_data(spark, kafka, tmp_path):
    topic = new_topic(kafka, [NOON] * 10)
    frame = kafka_source(kafka, topic).read_stream(spark).select("partition", "offset")
    assert available_now(frame, tmp_path).offsets() == []
    append(kafka, topic, {0: [NOON] * 5})
    assert available_now(frame, tmp_path).offsets() == [(0, offset) for offset in range(10, 15)]


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
        {"assign": '{"%s": [0, 2]}', "minPartitions": "5"},
    ],
)
def test_options_mean_what_they_mean_to_the_built_in_source(spark, kafka, topic, options):
    asked = {name: value % topic if "%s" in value else value for name, value in options.items()}
    known = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **asked}
    if "assign" not in asked:
        known["subscribe"] = topic
    ours, built_in = (
        spark.read.format(source).options(**known).load().select("partition", "offset").collect()
        for source in ("tidegate_kafka", "kafka")
    )
    assert ours
    assert sorted(ours) == sorted(built_in)
