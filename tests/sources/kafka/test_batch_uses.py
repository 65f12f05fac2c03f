"""One batch DataFrame used several times: the rows of each use, and the moment at which they are fixed."""

import pytest

from tests.support.streams import HOUR, NOON, append, even_times, kafka_source, new_topic


@pytest.fixture
def topic(kafka):
    return new_topic(kafka, even_times(NOON, NOON + HOUR, 10), even_times(NOON, NOON + HOUR, 20))


def test_filters_of_one_use_of_a_dataframe_leave_the_others_alone(spark, kafka, topic):
    frame = kafka_source(kafka, topic, starting_offsets="earliest").read(spark)
    first, second = frame.where("partition = 0"), frame.where("partition = 1")
    united = first.union(second)
    assert sorted(row.partition for row in united.collect()) == [0] * 10 + [1] * 20
    assert (first.count(), frame.count(), second.count()) == (10, 30, 20)
    frame.createOrReplaceTempView("uses")
    in_view = "select (select count(*) from uses where partition = 0), count(*) from uses where offset >= 5"
    assert tuple(*spark.sql(in_view).collect()) == (10, 20)


def test_a_dataframe_is_fixed_at_its_first_action_until_it_is_loaded_again(spark, kafka, topic):
    source = kafka_source(kafka, topic, starting_offsets="earliest")
    frame = source.read(spark)
    assert frame.count() == 30
    append(kafka, topic, {0: even_times(NOON, NOON + HOUR, 5)})
    # Spark keeps the partitions of the first plan with the loaded source (docs/spark.md).
    frame.createOrReplaceTempView("uses")
    assert (frame.count(), frame.where("offset >= 0").count(), spark.table("uses").count()) == (30, 30, 30)
    assert source.read(spark).count() == 35
