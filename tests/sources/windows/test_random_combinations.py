"""A sample of ``random_combinations``, which a program compares by the hundred."""

import random

import pytest

from tests.sources.memory import append
from tests.sources.windows.combinations import combinations
from tests.sources.windows.random_combinations import compared, random_source

SEED, MOST, A_BATCH = 8, 3, 120
PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def one_partition(spark):
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, 1)
    yield
    spark.conf.set(PARTITIONS, before)


@pytest.mark.usefixtures("one_partition")
def test_random_windows_on_spark_are_those_of_the_pure_operator(spark, tmp_path):
    drawn = [combination for combination in combinations(20, SEED) if combination.kind == "in event time"]
    source, to_come = random_source(random.Random(SEED), tmp_path)
    source = source.model_copy(update={"max_rows_per_trigger": A_BATCH})
    append(source.path, **to_come)
    counts = []
    for combination, wrong, count in compared(spark, drawn[:MOST], source, {}, tmp_path):
        assert not wrong, (combination, wrong)
        counts.append(count)
    assert len(counts) == MOST
    assert sum(counts) > 100
