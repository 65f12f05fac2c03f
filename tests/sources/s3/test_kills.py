"""Exactly once, whenever the driver dies."""

from tests.sources.s3 import kills as s3_kills


def test_a_driver_that_is_killed_three_times_while_objects_come_writes_every_row_once(spark, bucket, tmp_path):
    assert s3_kills.survive(bucket, spark, tmp_path, kills=3, seed=1) == 3


def test_executors_that_are_killed_three_times_write_every_row_once(spark, bucket, tmp_path):
    assert s3_kills.survive_without_executors(bucket, spark, tmp_path, kills=3, seed=1) == 3


def test_a_driver_that_is_killed_while_a_queue_tells_what_is_new_writes_every_row_once_and_empties_the_queue(
    spark, bucket, queue, tmp_path
):
    assert s3_kills.survive_with_queue(bucket, queue, spark, tmp_path, kills=1, seed=1) == 1
