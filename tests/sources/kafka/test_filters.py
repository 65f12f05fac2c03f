"""Filters of batch queries: the rows that they give, and the records that Spark gets from the source."""

from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import datasource as spark_filters

from tests.support.streams import HOUR, NOON, even_times, kafka_source, new_topic
from tidegate.sources.kafka.filters import take_over

AT_11 = datetime(2023, 11, 15, 11, tzinfo=timezone.utc)  # an hour before NOON; see the topic


@pytest.fixture(scope="module")
def topic(kafka):
    # The second partition is out of order: its late records come after those of half past.
    late = [*even_times(NOON, NOON + HOUR, 90), *even_times(NOON - HOUR, NOON, 10)]
    return new_topic(kafka, even_times(NOON, NOON + HOUR, 100), late, even_times(NOON, NOON + HOUR, 10))


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("partition = 2", 10),
        ("partition <> 0 AND offset < 7", 14),
        ("partition IN (0, 2) AND offset >= 95", 5),
        ("offset > 3 AND offset <= 5 AND key IS NULL", 6),
        # Records before the first one of 12:30 are skipped, but not older records after it.
        ("timestamp >= timestamp'2023-11-15 12:30:00'", 50 + 55 + 5),
        ("timestamp > timestamp'2023-11-15 12:30:00' AND partition = 0", 50),
        # A filter with an end in time, or with an alternative, is no range of a log.
        ("timestamp < timestamp'2023-11-15 12:30:00'", 210),
        ("partition = 2 OR offset = 50", 210),
        ("partition = 7", 0),
    ],
)
def test_the_rows_are_those_of_the_whole_topic_and_only_what_may_pass_is_read(spark, kafka, topic, condition, read):
    frame = kafka_source(kafka, topic, starting_offsets="earliest").read(spark)
    filtered = frame.where(condition).select("partition", "offset", "timestamp", "key")
    rows = sorted(map(tuple, filtered.collect()))
    assert records_read(filtered) == read
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        unfiltered = kafka_source(kafka, topic, starting_offsets="earliest").read(spark)
        filtered = unfiltered.where(condition).select("partition", "offset", "timestamp", "key")
        assert sorted(map(tuple, filtered.collect())) == rows
        assert records_read(filtered) == 210
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def records_read(frame):
    """Return the number of records that the scan of a collected DataFrame has given to Spark."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(leaves.apply(n).metrics().apply("numOutputRows").value() for n in range(leaves.size()))


@pytest.mark.parametrize(
    ("pushed", "is_exact"),
    [
        (spark_filters.EqualTo(("partition",), 1), True),
        (spark_filters.EqualNullSafe(("topic",), "orders"), True),
        (spark_filters.Not(spark_filters.In(("partition",), (1, 2))), True),
        (spark_filters.IsNotNull(("offset",)), True),
        (spark_filters.In(("partition",), (1, None)), False),
        (spark_filters.Not(spark_filters.EqualTo(("offset",), 7)), False),
        (spark_filters.In(("offset",), (7, 9)), False),
        (spark_filters.IsNull(("offset",)), False),
        (spark_filters.IsNotNull(("key",)), False),
        (spark_filters.StringStartsWith(("topic",), "ord"), False),
        (spark_filters.EqualTo(("key",), b"k"), False),
        (spark_filters.GreaterThan(("timestamp",), AT_11), False),
        (spark_filters.EqualTo(("headers", "partition"), 1), False),
    ],
    ids=str,
)
def test_spark_applies_what_is_not_kept_exactly(pushed, is_exact):
    assert take_over([pushed])[1] == ([] if is_exact else [pushed])


@pytest.mark.parametrize(
    ("pushed", "from_ms"),
    [
        (spark_filters.GreaterThan(("timestamp",), AT_11), NOON - HOUR),
        (spark_filters.EqualTo(("timestamp",), AT_11 + timedelta(microseconds=1500)), NOON - HOUR + 1),
        (spark_filters.LessThan(("timestamp",), AT_11), None),
        (spark_filters.GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=timezone.utc)), None),
        (spark_filters.GreaterThan(("timestamp",), AT_11.replace(tzinfo=None)), None),
    ],
    ids=str,
)
def test_a_lower_limit_of_time_is_a_place_in_the_log(pushed, from_ms):
    assert take_over([pushed])[0].from_ms == from_ms
