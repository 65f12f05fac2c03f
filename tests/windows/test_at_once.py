"""Windows of many keys at once, and input that is refused."""

import math
import warnings
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import OptionError
from tidegate.windows import (
    Aggregate,
    AggregateFunction,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Reduce,
    SlidingEventTimeWindows,
    SqlAggregate,
    SqlAggregates,
    TimeEvictor,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowOperator,
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.rows import Rows
from tidegate.windows.state.store import MemoryKeyStore

ALL = SqlAggregates(total="sum( v )", least="MIN(v)", most="max(v)")
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
    assert none == {"total": None, "least": None, "most": None}
    nan, _ = folded(ALL, pa.array([math.nan, 1.0, None]), 1)
    assert nan["least"] == 1.0
    assert math.isnan(nan["most"])
    text, _ = folded(SqlAggregates(least="min(v)", most="max(v)"), pa.array(["b", None, "a"]), 1)
    assert text == {"least": "a", "most": "b"}


def test_sql_aggregates_of_windows_that_merge_equal_those_of_all_rows():
    one = ALL.add_all(Rows([{"v": 1}, {"v": None}]), ALL.create_accumulator())
    other = ALL.add_all(Rows([{"v": 5}]), ALL.create_accumulator())
    empty = ALL.add_all(Rows([{"v": None}]), ALL.create_accumulator())
    merged = ALL.get_result(ALL.merge(ALL.merge(one, empty), other))
    assert merged == {"total": 6, "least": 1, "most": 5}


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


def test_sums_of_decimals_lose_no_digit_as_in_spark():
    function, long = SqlAggregates(total="sum(price)"), 12345678901234567890123456789012345
    one, other, small = (
        function.add({"price": Decimal(price)}, function.create_accumulator()) for price in (long, long + 2, "0.01")
    )
    both = function.get_result(function.merge(one, other))
    assert both == {"total": Decimal(2 * long + 2)}
    assert str(function.get_result(function.add({"price": Decimal(long)}, small))["total"]) == f"{long}.01"


NONE, ONE, TWO = (timedelta(seconds=seconds) for seconds in range(3))
COUNT = Aggregate(SqlAggregates(rows="sum(one)"))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: TumblingEventTimeWindows.of(NONE), "size=0:00:00 of TumblingEventTimeWindows must be positive."),
        (lambda: TumblingEventTimeWindows.of(ONE, -ONE), "offset=.* must be smaller than size=0:00:01."),
        (
            lambda: TumblingEventTimeWindows.of(ONE / 3000),
            "size=0:00:00.000333 must be a whole number of milliseconds.",
        ),
        (
            lambda: TumblingEventTimeWindows.of(5),
            r"size is 5, but must be a .*timedelta, such as timedelta\(minutes=5\)",
        ),
        (lambda: SlidingEventTimeWindows.of(TWO, ONE, ONE), "offset=0:00:01 of .* must be smaller than slide=0:00:01."),
        (lambda: SlidingEventTimeWindows.of(timedelta(days=365), ONE / 1000), "slide=.* more than 10000000 windows."),
        (
            lambda: EventTimeSessionWindows.with_gap(-ONE),
            "gap=-1 day, 23:59:59 of EventTimeSession.* must be positive.",
        ),
        (
            lambda: DynamicProcessingTimeSessionWindows.with_dynamic_gap(ONE),
            "gap of .* must be a function that takes a row and returns a timedelta, not",
        ),
        (
            lambda: DynamicProcessingTimeSessionWindows.with_dynamic_gap(lambda one, other: ONE),
            "gap of .* must be a function that takes a row .*lambda.*one, other. cannot be called with one argument.",
        ),
        (lambda: DeltaTrigger.of(1, abs), "delta_function of DeltaTrigger must be a function of two rows, and abs"),
        (lambda: DeltaTrigger.of(1, "far"), "delta_function of DeltaTrigger must be a function of two rows, not 'far'"),
        (lambda: DeltaTrigger.of("1", max), "threshold='1' of DeltaTrigger must be a number, or a timedelta."),
        (lambda: DeltaEvictor.of(math.nan, max), "threshold=nan of DeltaEvictor must be a number, or a timedelta."),
        (lambda: PurgingTrigger.of(3), "PurgingTrigger takes a trigger, such as CountTrigger.of.3., not 3"),
        (lambda: ProcessingTimeoutTrigger.of(None, ONE), "ProcessingTimeoutTrigger takes a trigger, .* not None"),
        (lambda: CountTrigger.of(1.5), "max_count=1.5 of CountTrigger must be a whole number."),
        (lambda: CountTrigger.of(0), "max_count=0 of CountTrigger must be at least 1."),
        (lambda: ProcessingTimeoutTrigger.of(CountTrigger.of(1), -ONE), "timeout=.* must not be negative."),
        (lambda: CountEvictor.of(-1), "max_count=-1 of CountEvictor must not be negative."),
        (lambda: TimeEvictor.of(-ONE), "window_size=.* of TimeEvictor must not be negative."),
        (
            lambda: SqlAggregate.parse("summ(x)"),
            r"'summ\(x\)' must be sum, min or max of a column; did you mean 'sum'\?",
        ),
        (lambda: SqlAggregates(x="sum(*)"), r"'sum\(\*\)' must be sum, min or max of a column"),
        (lambda: SqlAggregates(x="amount"), "'amount' must be sum"),
        (
            lambda: WindowOperator(TumblingEventTimeWindows.of(ONE), COUNT, allowed_lateness=-ONE),
            "allowed_lateness=-1 day, 23:59:59 must not be negative.",
        ),
        (
            lambda: WindowOperator(
                EventTimeSessionWindows.with_gap(ONE),
                COUNT,
                PurgingTrigger.of(DeltaTrigger.of(1, lambda one, other: 0)),
            ),
            "PurgingTrigger cannot be used with EventTimeSessionWindows, whose windows merge",
        ),
    ],
)
def test_bad_input_is_one_sentence_when_it_is_given(build, sentence):
    with pytest.raises(OptionError, match=sentence) as raised:
        build()
    assert str(raised.value).count("\n") == 0


class First(AggregateFunction):
    def create_accumulator(self):
        return None

    def add(self, value, accumulator):
        return accumulator or value

    def get_result(self, accumulator):
        return accumulator


def test_an_aggregate_function_without_merge_is_refused_for_sessions_unless_an_evictor_keeps_the_rows():
    sessions = EventTimeSessionWindows.with_gap(ONE)
    with pytest.raises(OptionError, match="needs merge, because windows of EventTimeSessionWindows merge"):
        WindowOperator(sessions, Aggregate(First()))
    assert WindowOperator(sessions, Aggregate(First()), evictor=CountEvictor.of(2)).folding is None


@pytest.mark.parametrize("trigger", [None, CountTrigger.of(3), ProcessingTimeoutTrigger.of(NeverTrigger.create(), ONE)])
def test_a_global_window_whose_rows_never_go_is_a_warning(trigger):
    with pytest.warns(UserWarning, match=r"GlobalWindows with \w+ keeps state for ever"):
        WindowOperator(GlobalWindows.create(), COUNT, trigger)


@pytest.mark.parametrize(
    "parts",
    [
        (GlobalWindows.create(), COUNT, PurgingTrigger.of(CountTrigger.of(3))),
        (GlobalWindows.create(), COUNT, CountTrigger.of(3), CountEvictor.of(3)),
        (GlobalWindows.create_with_end_of_stream_trigger(), COUNT),
        (TumblingEventTimeWindows.of(ONE), COUNT, CountTrigger.of(3)),
    ],
)
def test_windows_whose_rows_go_are_no_warning(parts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WindowOperator(*parts)


@pytest.mark.parametrize(
    ("parts", "event_time", "processing_time"),
    [
        ((TumblingEventTimeWindows.of(ONE), COUNT), True, False),
        ((TumblingProcessingTimeWindows.of(ONE), COUNT), False, True),
        ((TumblingProcessingTimeWindows.of(ONE), COUNT, ContinuousEventTimeTrigger.of(ONE)), True, True),
        ((TumblingEventTimeWindows.of(ONE), COUNT, ProcessingTimeoutTrigger.of(CountTrigger.of(1), ONE)), True, True),
        ((GlobalWindows.create(), COUNT, PurgingTrigger.of(CountTrigger.of(3))), False, False),
        ((GlobalWindows.create_with_end_of_stream_trigger(), COUNT), True, False),
    ],
)
def test_an_operator_tells_the_kinds_of_time_whose_timers_it_uses(parts, event_time, processing_time):
    operator = WindowOperator(*parts)
    assert (bool(operator.event_time), bool(operator.processing_time)) == (event_time, processing_time)
