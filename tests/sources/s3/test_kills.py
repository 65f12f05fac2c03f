"""Exactly once, whenever the driver dies."""

from tests.sources.s3 import kills as s3_kills


def test_a_driver_that_is_killed_while_objects_come_writes_every_row_once(spark, bucket, tmp_path):
    assert s3_kills.survive(bucket, spark, tmp_path, kills=1, seed=1) == 1


def test_a_cluster_of_which_an_executor_is_killed_writes_every_row_once(spark, bucket, tmp_path):
    assert s3_kills.survive_without_executors(bucket, spark, tmp_path, kills=1, seed=1) == 1
