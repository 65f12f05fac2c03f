"""Windows outlive their driver: every window comes once and whole, with the state of the checkpoint."""

import random

import pytest

from tests.sources.kills import kill_while_it_works, let_end, start_module
from tests.support.streams import HOUR, NOON, even_times, new_topic

DRIVER = "tests.sources.windows.driver"
CLUSTER = "local-cluster[2,1,1024]"
HOURS, ROWS_AN_HOUR, WINDOWS_AN_HOUR = 12, 600, 6


@pytest.fixture
def topic(kafka):
    times = even_times(NOON, NOON + HOURS * HOUR, HOURS * ROWS_AN_HOUR)
    return new_topic(kafka, times, times)


def windows(spark, out):
    rows = spark.read.parquet(f"{out}/data").collect()
    return sorted((row["partition"], row["window_start"].timestamp(), row["rows"], row["output"]) for row in rows)


def every_window():
    starts = [NOON / 1000 + number * 600 for number in range(HOURS * WINDOWS_AN_HOUR)]
    return [(partition, start, ROWS_AN_HOUR // WINDOWS_AN_HOUR, "results") for partition in (0, 1) for start in starts]


def test_a_driver_that_is_killed_while_windows_are_open_writes_each_window_once(spark, kafka, topic, tmp_path):
    start = lambda partitions: start_module(  # noqa: E731
        DRIVER, tmp_path, kafka.bootstrap_servers, topic, str(tmp_path), str(partitions)
    )
    assert kill_while_it_works(start(2), tmp_path, random.Random(1))
    # Another number of partitions: a checkpoint keeps to its own.
    let_end(start(3), tmp_path)
    assert windows(spark, tmp_path) == every_window()


def test_executors_of_a_cluster_keep_windows(spark, kafka, topic, tmp_path):
    let_end(start_module(DRIVER, tmp_path, kafka.bootstrap_servers, topic, str(tmp_path), "2", CLUSTER), tmp_path)
    assert windows(spark, tmp_path) == every_window()
