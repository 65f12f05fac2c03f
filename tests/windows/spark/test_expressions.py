"""Expressions of aggregates, the buckets of keys, and the code for users of Flink, up to the start of a query."""

import pickle
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StringType, StructType

from tidegate.windows.spark.buckets import (
    BUCKET,
    Packer,
    balanced,
    bucket_numbers,
    described_buckets,
    packed,
    partitions_of,
)
from tidegate.windows.spark.expressions import described_aggregates, parts_of
from tidegate.windows.spark.keys import values_of


@pytest.mark.parametrize(
    ("text", "argument"),
    [("count(*)", None), ("count(7)", None), ("count(NULL)", "NULL"), ("sum(1)", "1")],
)
def test_only_what_counts_rows_takes_no_column(spark, text, argument):
    parts = parts_of(spark.range(3).toDF("id"), {"n": text})
    assert parts.aggregates == {"__aggregate_0": "sum(__argument_0)"}
    column = parts.arguments["__argument_0"].column
    assert argument == (None if column is None else str(column).partition("'")[2].rstrip("'>"))


WHOLE = {
    "sum(size(filter(xs, x -> x > 1)))": 3,
    "transform(array(sum(a), max(a)), x -> x + 1)": [4, 3],
    "sum(length(mask(t, lowerChar => 'q')))": 2,
    "sum(if(t LIKE 'é%' AND a IN (1, 2), a, 0)) + count_if(t LIKE '%!_%' ESCAPE '!')": 1,
    "count(*) FILTER (WHERE exists(xs, x -> x > 2)) + count_if(a IS NULL)": 1,
    "count_if(exists(xs, x -> x > 2) AND t LIKE 'ü%') + count_if(t LIKE 'é%') - count_if(a LIKE 'é%')": 2,
    "count_if(size(filter(xs, x -> x > 1)) > 0) FILTER (WHERE a > 1)": 1,
    "sum(a) BETWEEN min(a) AND max(a) + 1": True,
    "concat('é😀', max(t), CASE sum(a)WHEN 3 THEN min(t) END) -- the greatest and the least": "é😀üé",
    "avg(CAST(a AS DECIMAL(10, 2))) * 2": 3,
    "max(a) > (SELECT 1)": True,
    "count_if(a IN (SELECT 2)) + sum(a + (SELECT 1)) + sum(a + (SELECT 2))": 13,
    "count_if((a > 1) = true) + count(*) FILTER (WHERE (a > 1) = false) + count(*) FILTER (WHERE true)": 4,
    "max(true)": True,
    "CASE WHEN true THEN sum(a) END": 3,
    "true": True,
}


def test_any_expression_may_stand_around_and_inside_aggregates_of_the_operator(spark):
    rows = spark.sql("SELECT * FROM VALUES (1, 'é', array(1, 2)), (2, 'ü', array(2, 3)) AS of(a, t, xs)")
    parts = parts_of(rows, {str(place): text for place, text in enumerate(WHOLE)})
    arguments = rows.select("*", *(argument.of_row().alias(name) for name, argument in parts.arguments.items()))
    whole = arguments.groupBy().agg(*(f.expr(text).alias(name) for name, text in parts.aggregates.items()))
    (row,) = whole.select(*(column.alias(name) for name, column in parts.results.items())).collect()
    assert dict(zip(WHOLE, row, strict=True)) == WHOLE


@pytest.mark.usefixtures("functions_of_the_user")
def test_the_description_of_aggregates_is_the_user_s_text_without_case_and_white_space(spark):
    rows = spark.range(3).toDF("id")

    def described(*texts):
        return described_aggregates(rows, dict(enumerate(texts)))["function"]

    text = described("sum(id * 2) / Count( * )", "count_if(id %2=0)")
    assert text == "aggregate sum(id*2), count(*), count_if(id%2=0)"
    one, other = "1 + Sum( ID +1) FILTER (WHERE id  IN ('A b', `id`))", "sum(id+1) filter(where id in('A b',`id`)) * 2"
    assert described(one, other) == described(one) == "aggregate sum(id+1)filter(where id in('A b',`id`))"
    assert described("approx_count_distinct(id) / max(id)") == "aggregate approx_count_distinct(id), max(id)"
    assert described("of_the_user(ID +1)", "sum(id)") == "aggregate of_the_user(id+1), sum(id)"
    assert described("doubled(sum(id)) + sum(doubled(id))") == "aggregate sum(id), sum(doubled(id))"
    assert described("1 + sum(id) + mean_in_pandas(ID)") == "aggregate sum(id), mean_in_pandas(id)"


def test_aggregates_that_are_one_in_the_description_are_one_in_the_operator(spark):
    rows = spark.sql("SELECT 1 AS a")
    texts = {"one": "sum(a + 1)", "other": "SUM( A+1 )", "filtered": "sum(a) FILTER (WHERE a > 0)"}
    parts = parts_of(rows, {**texts, "again": "sum(A) filter (where A>0)"})
    assert len(parts.aggregates) == len(parts.arguments) == 2
    one, other, filtered, again = map(str, parts.results.values())
    assert one == other != filtered == again


@pytest.mark.parametrize("on", ["true", " TRUE"])
def test_columns_that_differ_in_case_are_kept_apart_where_spark_does(spark, on):
    spark.conf.set("spark.sql.caseSensitive", on)
    try:
        rows = spark.sql("SELECT 1 AS a, 2.5D AS A")
        parts, description = (made(rows, {"x": "sum(a)", "y": "sum(A)"}) for made in (parts_of, described_aggregates))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert [kind.simpleString() for kind in parts.types.values()] == ["bigint", "double"]
    assert description == {"function": "aggregate sum(a), sum(A)"}


def test_texts_are_added_up_as_the_numbers_that_spark_reads_in_them(spark):
    spark.conf.set("spark.sql.ansi.enabled", "false")  # else Spark refuses a text without a number
    try:
        rows = spark.sql("SELECT * FROM VALUES ('1.5'), ('x'), (' 2.5 ') AS of(t)")
        parts = parts_of(rows, {"total": "sum(t)", "mean": "avg(t)"})
        arguments = rows.select(*(argument.of_row().alias(name) for name, argument in parts.arguments.items()))
        whole = arguments.groupBy().agg(*(f.expr(text).alias(name) for name, text in parts.aggregates.items()))
        (row,) = whole.select(*parts.results.values()).collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert (*row,) == (4.0, 2.0)
    assert [kind.simpleString() for kind in parts.kinds.values()] == ["double", "tinyint"]


MEANS = {
    "10, 2": ["0.01", "0.02", "0.02"],
    "38, 20": ["0.01", "0.02", "0.02"],
    "38, 38": ["0.1", "0.2", "0.2"],
    "38, 0": [f"4{'1' * 33}", f"5{'7' * 33}", "1"],
    "18, 4": [None] * 3,
}


def test_means_of_decimals_have_the_digits_of_spark_s_own(spark):
    names = [f"c{place}" for place in range(len(MEANS))]
    rows = spark.createDataFrame([*zip(*MEANS.values(), strict=True)], ", ".join(f"{name} string" for name in names))
    rows = rows.select(
        *(f.col(name).cast(f"decimal({kind})").alias(name) for name, kind in zip(names, MEANS, strict=True))
    )
    texts = {name: f"avg({name})" for name in names}
    parts = parts_of(rows, texts)
    arguments = rows.select(*(argument.of_row().alias(name) for name, argument in parts.arguments.items()))
    whole = arguments.groupBy().agg(*(f.expr(text).alias(name) for name, text in parts.aggregates.items()))
    theirs = rows.groupBy().agg(*(f.expr(text).alias(name) for name, text in texts.items()))
    mine = whole.select(*(column.alias(name) for name, column in parts.results.items()))
    assert mine.collect() == theirs.collect()
    assert [field.dataType for field in mine.schema] == [field.dataType for field in theirs.schema]


def test_every_aggregate_takes_a_filter(spark):
    parts = parts_of(
        spark.range(3).toDF("id"), {"n": "sum(id + 1) FILTER (WHERE id > 1) / max(id) FILTER (WHERE id < 2)"}
    )
    assert [kind.simpleString() for kind in parts.types.values()] == ["bigint", "bigint"]
    assert all("CASE WHEN" in str(argument.column) for argument in parts.arguments.values())


PAGE = Path(__file__).parents[3] / "docs" / "from-flink.md"


@pytest.mark.filterwarnings("ignore:GlobalWindows with NeverTrigger")
def test_each_concept_of_flink_has_code_that_runs(spark):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 10
    names = {"spark": spark, "servers": "localhost:9"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)  # noqa: S102 - that is what the page is for
    assert names["totals"].columns == ["page", "window_start", "window_end", "total", "output", "late_row"]


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
    rows = packed(spark.range(1_000), ["id"], None).where(f"{BUCKET} >= 0").select(BUCKET).distinct().collect()
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    assert sorted(bucket for (bucket,) in rows) == balanced(partitions).tolist()


PACKER = Packer(["key"], StructType().add("key", IntegerType()).add("text", StringType()), 2)


def batch(size):
    return pa.record_batch({"key": pa.array([0, 1], pa.int32()), "text": pa.array(["x" * size] * 2)})


def test_wide_rows_are_handed_on_before_they_fill_the_memory():
    taken = []
    packer = PACKER.pack(taken.append(n) or batch(20 << 20) for n in range(4))
    next(packer)
    assert len(taken) == 2  # 80 MiB
    assert len(list(packer)) == 1


def test_small_batches_travel_together():
    assert len(list(PACKER.pack(batch(10) for _ in range(4)))) == 1


def test_the_bytes_of_a_key_are_the_same_whichever_time_zones_pyarrow_takes():
    columns = [pa.chunked_array([pa.array([0, None], pa.timestamp("us", zone))]) for zone in ("UTC", "+00:00")]
    assert len({pickle.dumps(values_of(column)) for column in columns}) == 1
    assert values_of(columns[0])[0].isoformat() == "1970-01-01T00:00:00+00:00"
