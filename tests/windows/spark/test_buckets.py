"""Buckets of keys: their numbers, the rows on their way to them, and the bytes of keys."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as f

from tidegate.windows.spark.buckets import (
    BUCKET,
    HASH,
    _packer,
    balanced,
    bucket_numbers,
    described_buckets,
    packed,
    partitions_of,
)
from tidegate.windows.spark.keys import values_of


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


def batch(size):
    return pa.record_batch({HASH: pa.array([0, 1], pa.int32()), "text": pa.array(["x" * size] * 2)})


def test_wide_rows_are_handed_on_before_they_fill_the_memory():
    taken = []
    packer = _packer(2)(taken.append(n) or batch(20 << 20) for n in range(4))
    next(packer)
    assert len(taken) == 2  # 80 MiB
    assert len(list(packer)) == 1


def test_small_batches_travel_together():
    assert len(list(_packer(2)(batch(10) for _ in range(4)))) == 1


def test_the_bytes_of_a_key_are_the_same_whichever_time_zones_pyarrow_takes():
    columns = [pa.chunked_array([pa.array([0, None], pa.timestamp("us", zone))]) for zone in ("UTC", "+00:00")]
    assert len({pickle.dumps(values_of(column)) for column in columns}) == 1
    assert values_of(columns[0])[0].isoformat() == "1970-01-01T00:00:00+00:00"
