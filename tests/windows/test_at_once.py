"""Rows that are handed over together give the same results as one by one."""

import math
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.windows import (
    Aggregate,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    Reduce,
    SlidingEventTimeWindows,
    SqlAggregates,
    TriggerResult,
    TumblingEventTimeWindows,
    WindowOperator,
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.rows import Rows
from tidegate.windows.state.store import MemoryKeyStore

ALL = SqlAggregates(rows="count(*)", some="count(v)", total="sum( v )", least="MIN(v)", most="max(v)", mean="avg(v)")
NUMBERS = [
    pa.array([], pa.int64()),
    pa.array([3, -7, 3], pa.int32()),
    pa.array([2**62, 2**62 - 1, 5], pa.int64()),
    pa.array([2**63, 1], pa.uint64()),
    pa.array([None, 4, None], pa.int64()),
    pa.array([0.1] * 50 + [1e16, -1e16, 0.3], pa.float64()),
    pa.array([1.5, math.nan, -2.0], pa.float64()),
    pa.array([math.nan], pa.float64()),
    pa.array([None, math.inf], pa.float64()),
    pa.array([1.5, 2.5], pa.float32()),
    pa.array([Decimal("1.10"), Decimal("2.25")]),
]


def folded(function, values, at):
    """Return the results of values in two parts: at once, and one by one."""
    at_once, one_by_one = function.create_accumulator(), function.create_accumulator()
    for part in (values[:at], values[at:]):
        at_once = function.add_all(Rows(pa.table({"v": part})), at_once)
        for value in part.to_pylist():
            one_by_one = function.add({"v": value}, one_by_one)
    return function.get_result(at_once), function.get_result(one_by_one)


@pytest.mark.parametrize("values", NUMBERS, ids=lambda values: f"{values.type} {len(values)}")
@pytest.mark.parametrize("at", [0, 1])
def test_sql_aggregates_of_columns_equal_those_of_rows_to_the_last_bit(values, at):
    at_once, one_by_one = folded(ALL, values, at)
    assert repr(at_once) == repr(one_by_one)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False, width=64), max_size=20), st.integers(0, 20))
def test_sql_aggregates_of_floats_equal_those_of_rows_to_the_last_bit(values, at):
    at_once, one_by_one = folded(ALL, pa.array(values, pa.float64()), at)
    assert repr(at_once) == repr(one_by_one)


def test_sql_aggregates_follow_sparks_rules_for_nulls_and_nan():
    none, _ = folded(ALL, pa.array([None, None], pa.float64()), 1)
    assert none == {"rows": 2, "some": 0, "total": None, "least": None, "most": None, "mean": None}
    nan, _ = folded(ALL, pa.array([math.nan, 1.0, None]), 1)
    assert (nan["rows"], nan["some"], nan["least"]) == (3, 2, 1.0)
    assert math.isnan(nan["most"])
    text, _ = folded(SqlAggregates(least="min(v)", most="max(v)"), pa.array(["b", None, "a"]), 1)
    assert text == {"least": "a", "most": "b"}


def test_sql_aggregates_of_windows_that_merge_equal_those_of_all_rows():
    one = ALL.add_all(Rows([{"v": 1}, {"v": None}]), ALL.create_accumulator())
    other = ALL.add_all(Rows([{"v": 5}]), ALL.create_accumulator())
    empty = ALL.add_all(Rows([{"v": None}]), ALL.create_accumulator())
    merged = ALL.get_result(ALL.merge(ALL.merge(one, empty), other))
    assert merged == {"rows": 4, "some": 2, "total": 6, "least": 1, "most": 5, "mean": 3.0}


def test_rows_that_lie_far_apart_cost_nothing_for_the_empty_windows_between_them():
    assigner = SlidingEventTimeWindows.of(timedelta(milliseconds=4), timedelta(milliseconds=2))
    run = KeyRun(WindowOperator(assigner, Aggregate(ALL)), "a", MemoryKeyStore())
    year = 365 * 24 * 60 * 60 * 1000
    run.process_elements(pa.table({"v": [1, 2]}), [0, 1000 * year])
    assert [start for _, start, _ in run.event_timers()] == [-2, 0, 1000 * year - 2, 1000 * year]


class OnlyStateless(EventTimeTrigger):
    """Does not say that the first row decides."""

    stateless = True


class Eager(EventTimeTrigger):
    """Fires for each row of a session that begins at 100 or later."""

    stateless = first_row_decides = True

    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.FIRE if window.start >= 100 else super().on_element(element, timestamp, window, ctx)


class AtThree(PurgingTrigger):
    """Fires and purges at a row with 3, and else as the other trigger does."""

    def on_element(self, element, timestamp, window, ctx):
        if element["v"] == 3:
            return TriggerResult.FIRE_AND_PURGE
        return super().on_element(element, timestamp, window, ctx)


SESSIONS = EventTimeSessionWindows.with_gap(timedelta(milliseconds=10))
TUMBLING = TumblingEventTimeWindows.of(timedelta(milliseconds=200))


@pytest.mark.parametrize(
    ("assigner", "trigger", "sums"),
    [
        (SESSIONS, OnlyStateless(), [4, 6]),
        (SESSIONS, Eager(), [2, 6, 4, 6]),
        (SESSIONS, AtThree(EventTimeTrigger()), [4, 6]),
        (TUMBLING, AtThree(EventTimeTrigger()), [6, 4]),
    ],
    ids=lambda value: None if isinstance(value, list) else type(value).__name__,
)
def test_a_trigger_is_asked_for_each_row_unless_it_says_that_the_first_decides_and_goes_on(assigner, trigger, sums):
    def add(one, other):
        return {"v": one["v"] + other["v"]}

    rows, times = [{"v": 1}, {"v": 2}, {"v": 3}, {"v": 4}], [0, 100, 5, 105]
    at_once, one_by_one = (
        KeyRun(WindowOperator(assigner, Reduce(add), trigger), "a", MemoryKeyStore()) for _ in range(2)
    )
    at_once.process_elements(rows, times)
    for row, time in zip(rows, times, strict=True):
        one_by_one.process_element(row, time)
    for run in (at_once, one_by_one):
        run.advance_watermark(1000)
        assert ([result.value["v"] for result in run.results], run.late) == (sums, [])


def test_rows_made_of_columns_have_dicts_for_maps_also_inside_other_values():
    maps = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    inside = pa.array([[{"tags": [("b", 2)]}], []], pa.list_(pa.struct({"tags": maps.type})))
    expected = [{"tags": {"a": 1}, "inside": [{"tags": {"b": 2}}]}, {"tags": None, "inside": []}]
    assert list(Rows(pa.table({"tags": maps, "inside": inside}))) == expected
    assert list(Rows(pa.table({"inside": inside}))) == [{"inside": row["inside"]} for row in expected]


def test_sums_and_averages_of_decimals_lose_no_digit_as_in_spark():
    function, long = SqlAggregates(total="sum(price)", mean="avg(price)"), 12345678901234567890123456789012345
    one, other, small = (
        function.add({"price": Decimal(price)}, function.create_accumulator()) for price in (long, long + 2, "0.01")
    )
    both = function.get_result(function.merge(one, other))
    assert both == {"total": Decimal(2 * long + 2), "mean": Decimal(long + 1)}
    assert str(function.get_result(function.add({"price": Decimal(long)}, small))["total"]) == f"{long}.01"
