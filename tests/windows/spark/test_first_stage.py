"""What tasks of a source make of rows of windows gives what single rows give."""

import math
from datetime import timedelta
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from tidegate.add_ons import END_OF_TIME_MS, RECORDS
from tidegate.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from tidegate.windows.spark.buckets import BUCKET, ROWS, WITNESS, unpacked
from tidegate.windows.spark.first_stage import FirstStage, Slices
from tidegate.windows.testing import WindowHarness
from tidegate.windows.window import MAX_TIME, MIN_TIME


def ms(time):
    return timedelta(milliseconds=time)


TYPES = {"bigint": LongType(), "double": DoubleType(), "int": IntegerType(), "string": StringType()}


def columns_of(text):
    """Return the columns of a text such as ``n int``: without Java, PySpark reads none."""
    fields = (column.split() for column in text.split(", "))
    return StructType([StructField(name, TYPES[kind]) for name, kind in fields])


COLUMNS = columns_of("key string, __time bigint, rows bigint, n bigint, least int, greatest int")
TAKEN = {
    "key": [["key"]],
    "__time": [["at"]],
    "rows": [[], False, "sum"],
    "n": [["value", "n"], False, "sum"],
    "least": [["value", "n"], False, "min"],
    "greatest": [["value", "n"], False, "max"],
}
WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(ms(10), ms(3)),
    "sliding": SlidingEventTimeWindows.of(ms(10), ms(4), ms(-1)),
    "with gaps": SlidingEventTimeWindows.of(ms(4), ms(10)),
}


def stage(assigner=WINDOWS["tumbling"], columns=COLUMNS, taken=TAKEN, **others):
    slices = Slices.of(assigner.size, getattr(assigner, "slide", assigner.size), assigner.offset)
    arguments = {"slices": slices, "packs": False, **others}
    return FirstStage(rows=columns.jsonValue(), taken=taken, keys=["key"], time="__time", **arguments)


def batch(rows):
    """Return rows (key, time in ms, n) of a source."""
    values = pa.array([{"n": n} for _, _, n in rows], pa.struct({"n": pa.int32()}))
    times = pa.array([None if time is None else time * 1000 + 999 for _, time, _ in rows], pa.timestamp("us", "UTC"))
    keys = pa.array([None if key is None else key.encode() for key, _, _ in rows], pa.binary())
    return pa.record_batch({"key": keys, "value": values, "at": times})


def made(rows, watermark_ms, **others):
    return [row for one in stage(**others).rows(iter([batch(rows)]), watermark_ms) for row in one.to_pylist()]


def fired(harness):
    """Return the counts, sums, minima and maxima of the panes that fired, by key and window, in order."""
    panes = [
        (
            (pane.key, pane.start_ms, pane.end_ms),
            sum(row["rows"] for row in pane.rows),
            sum(row["n"] for row in pane.rows),
            min(row["least"] for row in pane.rows),
            max(row["greatest"] for row in pane.rows),
        )
        for pane in harness.panes
    ]
    harness.panes.clear()
    return sorted(panes, key=lambda pane: str(pane[0]))


ROWS_OF_KEYS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(-20, 60), st.integers(-9, 9)), max_size=30
)


@mock.patch("tidegate.windows.spark.first_stage._MOST", 1)  # all that may be summed up is
@settings(max_examples=100)
@given(
    st.sampled_from(sorted(WINDOWS)),
    st.integers(0, 15),
    st.lists(st.tuples(ROWS_OF_KEYS, st.integers(0, 12), st.integers(0, 3)), max_size=6),
)
def test_results_and_late_rows_are_those_of_single_rows(name, lateness, batches):
    """Spark's watermark may be behind the source's, where the query has another source."""
    single, summed = (WindowHarness(WINDOWS[name], allowed_lateness=ms(lateness)) for _ in range(2))
    of_spark = watermark = None
    for rows, step, behind in [*batches, ([], 100, 0), ([("a", 5, 1), ("a", 6, 1)], 0, 0)]:
        partial = made(rows, watermark, assigner=WINDOWS[name])
        event("fewer rows" if len(partial) < len(rows) else "all rows")
        for key, time, n in rows:
            single.element(key, {"rows": 1, "n": n, "least": n, "greatest": n}, time)
        for row in partial:
            summed.element(row["key"], row, row["__time"])
        assert fired(single) == fired(summed)
        assert [row["n"] for row in single.late] == [row["n"] for row in summed.late]
        watermark = (watermark or 0) + step
        of_spark = max(of_spark or MIN_TIME, watermark - behind)
        for harness in (single, summed):
            harness.watermark(of_spark)
        assert fired(single) == fired(summed)


def test_rows_of_a_key_and_slice_are_one_row_and_those_behind_the_watermark_stay_single():
    rows = [("a", 3, 1), ("b", 4, 2), ("a", 12, 3), ("a", 13, 4), ("a", 14, None), ("a", 22, 5), (None, 13, 6)]
    rows += [(None, 14, 1), ("a", None, 9)] + [("b", 15, n) for n in range(5)]
    assert [tuple(row.values()) for row in made(rows, 12)] == [
        ("a", 3, 1, 1, 1, 1),
        ("b", 4, 1, 2, 2, 2),
        ("a", 12, 1, 3, 3, 3),
        ("a", 13, 3, 9, 4, 5),
        (None, 13, 2, 7, 1, 6),
        ("b", 13, 5, 10, 0, 4),
        ("a", None, 1, 9, 9, 9),
    ]


@pytest.mark.parametrize("watermark_ms", [END_OF_TIME_MS, MAX_TIME])
def test_behind_the_last_watermark_all_rows_stay_single(watermark_ms):
    assert len(made([("a", END_OF_TIME_MS + 5_000, 1)] * 9, watermark_ms)) == 9


def test_rows_stay_single_if_there_would_be_nearly_as_many():
    assert len(made([(f"key {n}", 5, n) for n in range(39)] + [("key 0", 5, 1)], None)) == 40


@pytest.mark.parametrize(
    ("kind", "function", "values", "rows"),
    [
        ("double", "max", [1.5, math.nan, 2.5, 1.0], 4),
        ("double", "min", [1.5, None, 2.5, 1.0], 1),
        ("double", "sum", [1.5, math.nan, 2.5, 1.0], 1),
        ("bigint", "sum", [2**61, 2**61, 1, 1], 4),
        ("bigint", "sum", [-(2**63), 1, 1, 1], 4),
        ("bigint", "max", [2**62, -(2**63), 1, 1], 1),
        ("bigint", "sum", [None] * 4, 1),
        ("string", "min", ["b", "a", None, "é"], 1),
    ],
)
def test_rows_that_arrow_would_not_add_or_compare_as_spark_does_stay_single(kind, function, values, rows):
    columns = columns_of(f"key string, __time bigint, v {kind}")
    taken = {"key": [["key"]], "__time": [["at"]], "v": [["v"], False, function]}
    given = batch([("a", 5, 1)] * len(values)).append_column("v", pa.array(values))
    found = pa.Table.from_batches(stage(columns=columns, taken=taken).rows(iter([given]), None))
    assert found.num_rows == rows
    if rows == 1 and function != "sum":
        assert found["v"].to_pylist() == [(max if function == "max" else min)(v for v in values if v is not None)]


def test_rows_are_packed_by_bucket_and_count():
    rows = [*((f"key {n % 7}", 13, n) for n in range(70)), ("key 0", None, 1)]
    (packed,) = stage(packs=True, buckets=3).rows(iter([batch(rows[:30]), batch(rows[30:])]), None)
    witness, *of_buckets = packed.to_pylist()
    assert (witness[BUCKET], witness[RECORDS]) == (WITNESS, 71)
    found = [(row[BUCKET], one) for row in of_buckets for one in unpacked([row[ROWS]], COLUMNS).to_pylist()]
    assert [row[RECORDS] for row in of_buckets] == [0] * len(of_buckets)
    assert len(found) == 7
    assert {one["key"]: one["n"] for _, one in found} == {f"key {k}": sum(range(k, 70, 7)) for k in range(7)}
    assert {bucket for bucket, _ in found} <= {0, 1, 2}


@pytest.mark.parametrize("slices", [Slices(10, 3), None])
def test_a_task_whose_rows_all_lack_the_event_time_only_counts_them(slices):
    (packed,) = stage(packs=True, buckets=3, slices=slices).rows(iter([batch([("a", None, 1), ("b", None, 2)])]), 5)
    assert [(row[BUCKET], row[RECORDS]) for row in packed.to_pylist()] == [(WITNESS, 2)]


@mock.patch("tidegate.windows.spark.first_stage._MOST", 1)
def test_keys_stay_apart_however_far_apart_the_event_times_are():
    first, many = -60_000_000_000_000, 1 << 16  # so many keys times 2^48 slices do not fit in 64 bits
    rows = [*((f"key {n}", first, 1) for n in range(many + 1)), ("key 0", first + (1 << 48) - 1, 1)]
    assert len(made(rows, None, slices=Slices(1, 0))) == len(rows)


def test_a_key_of_bytes_that_are_no_text_is_a_text_of_these_bytes_as_in_spark():
    given = batch([("a", 5, 1)]).set_column(0, "key", pa.array([b"\xff\x00"], pa.binary()))
    (found,) = stage().rows(iter([given]), None)
    assert found["key"].type == pa.string()
    assert found["key"].view(pa.binary()).to_pylist() == [b"\xff\x00"]


@pytest.mark.parametrize("step", [1, 7919])
def test_keys_that_come_by_turns_are_summed_up(step):
    """Every 49th of these rows has another key."""
    rows = 200_000
    numbers = np.arange(rows)
    source = pa.record_batch(
        {
            "key": pa.array((numbers * step % 1_000).astype(str)).cast(pa.binary()),
            "value": pa.StructArray.from_arrays([pa.array(numbers.astype(np.int32))], ["n"]),
            "at": pa.array(numbers * 10_000 // 25_000, pa.timestamp("us", "UTC")),
        }
    )
    batches = [*stage().rows(iter([source]), None)]
    assert sum(one.num_rows for one in batches) < rows / 10
    assert sum(sum(one.column("rows").to_pylist()) for one in batches) == rows
