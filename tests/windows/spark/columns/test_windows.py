"""Windows in columns give what the pure operator gives, row by row."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import ByteType, StructField, StructType

from tests.windows.spark.fakes import PACKED
from tests.windows.spark.pairs import SQL, WINDOWS, Pair, batches, history, operator_of, spark_of
from tidegate.spark_private import to_arrow_schema
from tidegate.windows import Aggregate
from tidegate.windows.spark.columns.firing import begin_sessions
from tidegate.windows.spark.columns.windows import ColumnWindows
from tidegate.windows.window import MIN_TIME

pytestmark = pytest.mark.filterwarnings("ignore:GlobalWindows with .* keeps state for ever")
GAP = 5


def test_windows_of_tidegate_are_in_columns_unless_they_need_their_rows_or_a_time_out_has_a_trigger_with_timers():
    rows = to_arrow_schema(StructType([*PACKED, StructField("one", ByteType())]))
    by_key = {name for name in WINDOWS if not ColumnWindows.takes(operator_of(name, Aggregate(SQL)), rows)}
    assert by_key == {"evicted", "time-out of event time"}


# A row that fires at once begins a session that waits for nothing, and a later row goes on with it.
@example(steps=[([], 5, 1), ([("a", 1, 0)], 0, 1), ([("a", 2, 0)], 0, 1)])
# A session has fired at its end, and a late row makes it longer at its beginning.
@example(steps=[([], 19, 1), ([("a", 16, 0)], 1, 1), ([("a", 11, 0)], 0, 1)])
# A timer behind the watermark waits for the next watermark.
@example(steps=[([], 7, 1), ([("a", 4, 1)], 0, 1), ([("a", 5, 2)], 0, 1), ([], 3, 1)])
# A window that was purged takes more rows.
@example(steps=[([("a", 4, 1)], 7, 1), ([("a", 5, 2)], 1, 1)])
# A late row waits for the next watermark.
@example(steps=[([], 13, 1), ([("a", 4, 1)], 0, 1), ([], 1, 1)])
# A session that has fired at its end by the clock takes a row without growing, and does not fire again.
@example(steps=[([("a", 10, 1)], 0, 30), ([], 0, 20), ([("a", 10, 2)], 0, 20), ([], 0, 1)])
# Two windows take one of two rows.
@example(steps=[([], 30, 1), ([("d", 1, 2), ("a", 50, 1)], 0, 1)])
@pytest.mark.parametrize("name", [name for name in WINDOWS if name != "evicted"])
@settings(max_examples=30)
@given(steps=batches)
def test_aggregates_of_each_window_are_those_of_its_rows(name, steps):
    pair = Pair(name, Aggregate(SQL))
    for batch in history(steps):
        windows, panes = pair.batch(*batch)
        totals = [(window, *(result[column] for column in SQL.aggregates)) for window, result in windows]
        expected = [(window, len(n), sum(n), min(n), max(n)) for window, n in panes]
        assert sorted(totals, key=str) == sorted(expected, key=str)


def test_a_time_out_counts_from_the_first_row_also_where_the_clock_goes_back():
    spark = spark_of("global with a time-out", Aggregate(SQL))
    for now in (10, 5):
        spark.batch([("a", 1, 1)], MIN_TIME, now)
    assert spark.batch([], MIN_TIME, 13) == []
    assert [result["rows"] for result in spark.batch([], MIN_TIME, 14)] == [2]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=30), st.integers(0, 10))
def test_a_row_begins_a_session_unless_one_before_it_or_an_open_one_takes_it(rows, count):
    open_rows, rows = rows[:count], rows[count:]
    spans = {(key, time): (key, time, time + GAP) for key, time in open_rows if (key, time) == first_of(key, open_rows)}
    before, expected = [*spans.values()], []
    for key, time in rows:
        expected.append(not any(key == k and time <= end and begin <= time + GAP for k, begin, end in before))
        before.append((key, time, time + GAP))
    opened = (np.array(column, np.int64) for column in zip(*spans.values(), strict=True)) if spans else [EMPTY] * 3
    codes, times = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
    assert begin_sessions(tuple(opened), (codes, times, times + GAP)).tolist() == expected


EMPTY = np.zeros(0, np.int64)


def first_of(key, rows):
    """Return the first row of a key: its windows must not touch, so a key has one open window."""
    return next(row for row in rows if row[0] == key)
