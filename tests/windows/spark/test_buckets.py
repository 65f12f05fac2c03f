"""Which numbers the buckets of windows have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as f

from tidegate.windows.spark.buckets import BUCKET, balanced, bucket_numbers, described_buckets, packed, partitions_of


@given(st.integers(1, 600))
def test_each_shuffle_partition_has_equally_many_buckets_and_a_query_has_sixteen_at_least(partitions):
    numbers = balanced(partitions)
    counts = np.bincount(partitions_of(numbers, partitions), minlength=partitions)
    assert set(counts) == {max(1, -(-16 // partitions))}
    assert len(set(numbers.tolist())) == len(numbers)


def test_the_buckets_that_a_user_counts_are_numbered_from_0():
    assert bucket_numbers(3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("partitions", [1, 7, 200])
def test_the_partition_of_a_bucket_is_that_of_spark(spark, partitions):
    numbers = np.array([*range(200), -1, 2**31 - 1, -(2**31)], np.int32)
    rows = spark.createDataFrame([(number,) for number in numbers.tolist()], "bucket int")
    shuffled = rows.repartition(partitions, "bucket").select(f.spark_partition_id(), "bucket").collect()
    assert {number: partition for partition, number in shuffled} == dict(
        zip(numbers.tolist(), partitions_of(numbers, partitions).tolist(), strict=True)
    )


def test_the_state_says_which_buckets_it_has():
    assert (described_buckets(3), described_buckets(None)) == ("3", "16, for 16 shuffle partitions")


def test_a_batch_query_has_the_buckets_that_the_session_s_partitions_need(spark):
    rows = packed(spark.range(1_000), [f.col("id")], None).where(f"{BUCKET} >= 0").select(BUCKET).distinct().collect()
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    assert sorted(bucket for (bucket,) in rows) == balanced(partitions).tolist()
