"""Buckets of keys give the results of the pure operator for any rows, and leave no state behind."""

import pickle
import struct
import sys
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming import transform_with_state_driver_worker as driver_worker
from pyspark.sql.types import (
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
)

from tests.windows.spark.fakes import PACKED, FakeClient, FakeSpark
from tests.windows.spark.pairs import (
    SQL,
    TUMBLING,
    WINDOWS,
    Numbers,
    Pair,
    batches,
    history,
    ms,
    operator_of,
    spark_of,
)
from tidegate.errors import FunctionError, OptionError
from tidegate.spark_private import state_answers
from tidegate.windows import (
    Aggregate,
    GlobalWindows,
    Process,
    ProcessWindowFunction,
    PurgingTrigger,
    SqlAggregates,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    WindowOperator,
)
from tidegate.windows.spark.builder import why_operator
from tidegate.windows.spark.processor import WindowProcessor
from tidegate.windows.window import MAX_TIME, MIN_TIME

pytestmark = pytest.mark.filterwarnings("ignore:GlobalWindows with .* keeps state for ever")

# Windows of all times, and a row behind the end of the stream that waits for one more watermark.
KEPT = {name for name in WINDOWS if name.startswith("global")} | {"by clock at the end"}


def numbers_of(windows):
    return sorted((window, result["numbers"]) for window, result in windows)


@pytest.mark.parametrize("name", WINDOWS)
@settings(max_examples=30)
@given(steps=batches)
def test_rows_of_each_window_are_those_of_the_pure_operator(name, steps):
    pair = Pair(name, Process(Numbers()))
    for batch in history(steps):
        windows, panes = pair.batch(*batch)
        assert numbers_of(windows) == sorted(panes)
    missed = {place for place in pair.spark.missed if place[0] != b"page"}
    assert missed <= {(b"head", 0, 0)}  # a bucket is new, a page empty
    if name not in KEPT:
        assert pair.spark.stored() == 0
        assert not pair.spark.timers


@pytest.mark.parametrize(
    "name", ["tumbling with lateness", "sliding with gaps", "sessions with lateness", "by clock", "global"]
)
@settings(max_examples=30)
@given(steps=batches)
def test_results_of_a_stateful_step_come_before_the_watermark_of_their_batch(name, steps):
    pair = Pair(name, Process(Numbers()), buckets=1, ahead_ms=0)
    for batch in [([("a", 1, 0)], MIN_TIME, 0), *history(steps)]:
        windows, panes = pair.batch(*batch, rows_first=True)
        assert numbers_of(windows) == sorted(panes)
    if name not in KEPT:
        assert pair.spark.stored() == 1  # the bucket, with its watermark
        assert not pair.spark.timers


def test_windows_over_windows_of_spark_wait_for_those_that_spark_closes_a_millisecond_later():
    spark = FakeSpark(operator_of("tumbling", Process(Numbers())), late="late", ahead_ms=1)
    assert spark.batch([("a", 4, 1)], 5) == []
    assert spark.batch([], 12) == []  # the sources' watermark is 11, and the window [3, 13) ends at 12
    assert [r["numbers"] for r in spark.batch([("a", 12, 2)], 13)] == [[1, 2]]


class Odd(Numbers):
    """Gives odd numbers to a side output, and a sum when a window goes."""

    def process(self, key, context, elements):
        for row in elements:
            if row["n"] % 2:
                context.output("odd", {"n": row["n"]})
        return super().process(key, context, elements)

    def clear(self, context):
        context.output("gone", {"start": context.window().start})


OUTPUTS = {"odd": {"n": pa.int64()}, "gone": {"start": pa.int64()}}


def test_a_process_function_gives_rows_to_several_side_outputs():
    spark = FakeSpark(operator_of("tumbling", Process(Odd())), outputs=OUTPUTS, buckets=1)
    spark.batch([("a", 4, 1), ("a", 5, 2), ("b", 16, 3)], MIN_TIME)
    results = spark.batch([], MAX_TIME)
    assert sorted((r["output"], r["key"], r["window_end"] // 1000) for r in results) == [
        (output, *window) for output in ("gone", "odd", "results") for window in (("a", 13), ("b", 23))
    ]
    assert [r["odd_row"] for r in results if r["output"] == "odd"] == [{"n": 1}, {"n": 3}]
    assert [r["gone_row"] for r in results if r["output"] == "gone"] == [{"start": 3}, {"start": 13}]


def test_a_side_output_that_the_windows_do_not_have_is_told():
    spark = FakeSpark(operator_of("tumbling", Process(Odd())), outputs={"old": {}, "gone": OUTPUTS["gone"]})
    spark.batch([("a", 4, 1)], MIN_TIME)
    with pytest.raises(
        FunctionError, match=r"the side output 'odd'; did you mean .old.* by side_output\('odd', schema"
    ):
        spark.batch([], MAX_TIME)


@pytest.mark.parametrize("late", [None, "late"])
@pytest.mark.parametrize("function", [Process(Numbers()), Aggregate(SQL)], ids=["key by key", "in columns"])
def test_a_call_tells_which_late_rows_it_dropped_which_windows_are_open_and_when_the_first_is_due(function, late):
    spark, reported = FakeSpark(operator_of("tumbling", function), late=late, buckets=1), []
    opened, more, behind = [("a", 4, 1), ("a", 14, 2), ("b", 4, 3)], [("b", 25, 4)], [("a", 5, 5)]
    for rows, watermark in [(opened, 5), (more, 12), (behind, 12), ([], MAX_TIME)]:
        spark.batch(rows, watermark)
        reported += [(call["dropped"], call["windows"], call["due"]) for call in spark.reported]
    assert reported == [(0, 3, 12), (0, 2, 22), (int(late is None), 2, 22), (0, 0, None)]


def test_pyspark_s_worker_on_the_driver_prints_nothing_once_it_has_the_processor(monkeypatch, capsys):
    processor = FakeSpark(operator_of("tumbling", Aggregate(SQL))).processor
    monkeypatch.setitem(sys.modules, "__main__", driver_worker)
    monkeypatch.setattr(driver_worker, "print", print, raising=False)
    pickle.loads(pickle.dumps(WindowProcessor(processor._settings)))  # noqa: S301 - what it pickled itself
    driver_worker.print("Completed execution of UDF")
    assert capsys.readouterr().out == ""


class OneDay(TumblingEventTimeWindows):
    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(0, 86_400_000)]


def test_windows_of_a_subclass_are_assigned_by_the_subclass_alone():
    assigner = OneDay.of(ms(10))
    assert why_operator(assigner, None, None, ms(0), None) == "Spark has no OneDay"
    for function in (Aggregate(SQL), Process(Numbers())):
        spark = FakeSpark(WindowOperator(assigner, function), buckets=1)
        spark.batch([("a", time, 1) for time in (5, 25, 45)], MIN_TIME)
        assert [r["window_end"] for r in spark.batch([], MAX_TIME)] == [86_400_000_000]


def test_no_call_is_larger_than_spark_takes_and_no_part_stays():
    spark = FakeSpark(operator_of("tumbling", Process(Numbers())), buckets=1)
    spark.batch([("a", 1 + n % 9, n) for n in range(20_000)], MIN_TIME)
    assert spark.stored() > 3
    (result, *_) = spark.batch([], MAX_TIME)
    assert len(result["numbers"]) > 4_000
    assert spark.stored() == 0
    assert {*spark.missed} == {(b"head", 0, 0)}


def test_no_call_is_larger_than_spark_takes_however_long_a_key_is():
    spark, key = FakeSpark(operator_of("tumbling", Process(Numbers())), buckets=1), "long" * 10_000
    spark.batch([(key, 1 + n % 9, n) for n in range(90)], MIN_TIME)
    results = spark.batch([("short", 40, 0)], 30)
    assert [(r["key"], len(r["numbers"])) for r in results] == [(key, 20), (key, 70)]
    spark.batch([], MAX_TIME)
    assert spark.stored() == 0


@pytest.mark.parametrize("name", WINDOWS)
def test_sql_aggregates_and_built_in_triggers_are_not_pickled_and_rows_are(name):
    for function in (Aggregate(SQL), Process(Numbers())):
        spark = spark_of(name, function, buckets=1)
        spark.batch([("a", 11, 1), ("a", 12, 2), ("b", 11, None)], MIN_TIME)
        stored = b"".join(value for values in spark.states.values() for (value,) in values.values())
        is_pickled = pickle.PROTO + bytes([pickle.HIGHEST_PROTOCOL]) in stored or b"pickle" in stored
        assert is_pickled == (isinstance(function, Process) or name == "evicted")


def test_a_batch_stores_a_page_once_however_many_rows_it_has():
    few, many = (FakeSpark(operator_of("tumbling", Aggregate(SQL)), buckets=1) for _ in range(2))
    few.batch([("a", 5, 1)], MIN_TIME)
    many.batch([(key, 5, n) for n in range(1_000) for key in "abcdefgh"], MIN_TIME)
    assert few.writes == many.writes == 4  # of the bucket, its page and block, and the witness


def test_a_bucket_waits_for_all_pages_of_a_batch_together():
    spark = FakeSpark(operator_of("tumbling", Aggregate(SQL)), buckets=1)
    spark.batch([(f"key {n}", 5, n) for n in range(8_000)], MIN_TIME)
    writes, waits = spark.writes, spark.client.waits
    spark.batch([(f"key {n}", 5, n) for n in range(0, 8_000, 400)], MIN_TIME)
    assert spark.writes - writes > 15
    assert spark.client.waits - waits <= 5  # for the witness, the bucket, its block, pages, and all that is written


def test_a_state_call_that_failed_is_told():
    client = FakeClient()
    handle = SimpleNamespace(_statefulProcessorApiClient=client)
    with pytest.raises(PySparkRuntimeError, match="it failed"):
        state_answers(handle, [client.call, lambda: client.call(status=1)])


def test_in_processing_time_a_bucket_with_event_timers_is_called_with_each_batch():
    spark = FakeSpark(operator_of("tumbling", Aggregate(SQL)), time_mode="ProcessingTime")
    assert spark.batch([("a", 5, 1)], MIN_TIME, now_ms=100) == []
    assert spark.batch([], 11, now_ms=200) == []
    assert [r["rows"] for r in spark.batch([], 12, now_ms=300)] == [1]  # the window [3, 13)
    assert not spark.timers


class Surprising(Trigger):
    """Does not say which kind of timers it registers."""

    reads_rows, frees_rows = False, True

    def __init__(self, *, in_event_time):
        self.in_event_time = in_event_time

    def on_element(self, element, timestamp, window, ctx):
        register = ctx.register_event_time_timer if self.in_event_time else ctx.register_processing_time_timer
        register(timestamp)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE

    on_processing_time = on_event_time

    def clear(self, window, ctx):
        pass


@pytest.mark.parametrize(
    ("in_event_time", "spark", "reported"),
    [
        (False, {"time_mode": "EventTime"}, "Surprising has a timer in processing time: say so by Surprising.proc"),
        (False, {"time_mode": "None", "event_times": False}, "Surprising has a timer in processing time"),
        (True, {"time_mode": "None", "event_times": False}, "Surprising has a timer in event time: name it, as"),
        (True, {"time_mode": "ProcessingTime", "event_times": False}, "Surprising has a timer in event time"),
    ],
)
def test_a_timer_that_spark_would_never_call_is_told(in_event_time, spark, reported):
    trigger = PurgingTrigger.of(Surprising(in_event_time=in_event_time))
    fake = FakeSpark(WindowOperator(GlobalWindows.create(), Process(Numbers()), trigger), **spark)
    with pytest.raises(OptionError, match=reported):
        fake.batch([("a", 5, 1)], MIN_TIME)


class Gives(ProcessWindowFunction):
    def __init__(self, given):
        self.given = given

    def process(self, key, context, elements):
        return self.given


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"numbers": []}, "gave 'numbers', but a result must be a mapping"),
        ([7], "gave 7, but a result must be a mapping"),
        ([{"number": []}], "gave the column 'number', which is not in its schema; did you mean 'numbers'"),
        ([{}], "gave no value for the column 'numbers' of its schema; None stands for no value"),
        ([{"numbers": []}, {"numbers": "many"}], "gave 'many' for the column 'numbers', which is list<item: int64>"),
        ([{"numbers": [2**64]}], "gave .18446744073709551616. for the column 'numbers'"),
    ],
)
def test_a_result_that_does_not_fit_the_schema_is_told_with_its_key_and_window(given, reported):
    spark = FakeSpark(operator_of("tumbling", Process(Gives(given))))
    spark.batch([("a", 5, 1)], MIN_TIME)
    with pytest.raises(FunctionError, match=reported) as raised:
        spark.batch([], MAX_TIME)
    assert "(for key 'a' and window [3, 13) ms)" in str(raised.value)


@pytest.mark.parametrize("kind", [DoubleType(), FloatType()])
@pytest.mark.parametrize("function", ["rows", "sums"])
def test_floats_that_spark_groups_are_one_key(kind, function):
    functions = {"rows": Process(Numbers()), "sums": Aggregate(SqlAggregates(total="sum(n)"))}
    packed = StructType([StructField("__key_0", kind), *PACKED.fields[1:]])
    spark = FakeSpark(WindowOperator(TUMBLING, functions[function]), buckets=1, packed=packed)
    nan, other_nan = (struct.unpack("<d", struct.pack("<Q", bits << 48))[0] for bits in (0x7FF8, 0xFFF8))
    spark.batch([(0.0, 4, 1), (-0.0, 5, 2), (nan, 4, 10), (other_nan, 5, 20)], MIN_TIME)
    spark.batch([(-0.0, 6, 4), (nan, 6, 40), (nan, 14, 80), (0.0, 15, 8), (other_nan, 16, 80)], 4)
    results = spark.batch([(1.0, 90, 1)], 50)
    found = {(str(r["key"]), r["window_start"] // 1000): r.get("numbers", r.get("total")) for r in results}
    rows = {("0.0", 3): [1, 2, 4], ("nan", 3): [10, 20, 40], ("0.0", 13): [8], ("nan", 13): [80, 80]}
    assert found == (rows if function == "rows" else {window: sum(numbers) for window, numbers in rows.items()})
    spark.batch([], MAX_TIME)
    assert not spark.stored()


def test_large_integers_are_summed_exactly():
    packed = StructType([*PACKED.fields[:2], StructField("n", LongType())])
    spark = FakeSpark(operator_of("tumbling", Aggregate(SQL)), packed=packed, buckets=1)
    numbers = [2**53 + 1, 2**62, -(2**62)]
    for number in numbers:  # the sum of the sizes is larger than 64 bits, and the sum is not
        spark.batch([("a", 4, number)], MIN_TIME)
    (result,) = spark.batch([], MAX_TIME)
    assert (result["n"], result["least"]) == (2**53 + 1, -(2**62))
    with pytest.raises(FunctionError, match=r"aggregate 'sum\(n\)' is 9223372036854775808, which is too large"):
        spark.batch([("a", 4, 2**62), ("a", 4, 2**62)], MIN_TIME)


def test_the_longest_interval_of_a_window_is_found():
    packed = StructType([*PACKED.fields[:2], StructField("n", DayTimeIntervalType())])
    spark = FakeSpark(operator_of("tumbling", Aggregate(SqlAggregates(longest="max(n)"))), packed=packed, buckets=1)
    spark.batch([("a", 4, timedelta(days=days)) for days in (2, -1, 3)], MIN_TIME)
    assert [result["longest"] for result in spark.batch([], MAX_TIME)] == [timedelta(days=3)]


@pytest.mark.parametrize("name", ["tumbling", "by clock", "global fired by clock", "global at the end"])
def test_a_sum_that_may_be_too_large_for_arrow_leaves_other_keys_in_columns(name):
    packed = StructType([*PACKED.fields[:2], StructField("n", LongType())])
    spark = spark_of(name, Aggregate(SqlAggregates(total="sum(n)")), packed=packed, buckets=1)
    spark.batch([("a", 4, 2**61), ("b", 4, 1)], MIN_TIME, 4)
    spark.batch([("a", 4, 2**61 - 1), ("a", 4, 1), ("b", 4, 2)], MIN_TIME, 5)
    assert {(r["key"], r["total"]) for r in spark.batch([], MAX_TIME, 12)} == {("a", 2**62), ("b", 3)}


@pytest.mark.parametrize("rows", [2, 40])
def test_a_sum_with_more_digits_than_a_decimal_has_is_told(rows):
    packed = StructType([*PACKED.fields[:2], StructField("n", DecimalType(38, 0))])
    spark = FakeSpark(operator_of("tumbling", Aggregate(SqlAggregates(total="sum(n)"))), packed=packed)
    largest = Decimal(10**38 - 1)
    with pytest.raises(
        FunctionError, match=rf"aggregate 'sum\(n\)' is Decimal\('{rows * (10**38 - 1)}'\), which is too"
    ):
        spark.batch([("a", 4, largest)] * rows, MIN_TIME)


@pytest.mark.parametrize(("kind", "after"), [(TimestampNTZType(), 253_402_300_800_000_000), (DateType(), 2_932_897)])
def test_a_time_that_python_does_not_have_is_told(kind, after):
    packed = StructType([StructField("__key_0", kind), *PACKED.fields[1:]])
    spark = FakeSpark(operator_of("tumbling", Aggregate(SQL)), packed=packed)
    spark.batch([(after, 4, 1)], MIN_TIME)
    with pytest.raises(OptionError, match=r"convert it .* years 1 to 9999 by unix_millis\(\)"):
        spark.batch([], MAX_TIME)


@pytest.mark.parametrize("rows", [1, 40])
def test_a_time_that_python_does_not_have_is_told_for_few_and_for_many_rows_of_a_key(rows):
    packed = StructType([*PACKED.fields[:2], StructField("n", DateType())])
    spark = FakeSpark(operator_of("tumbling", Process(Numbers())), packed=packed)
    with pytest.raises(OptionError, match="years 1 to 9999"):
        spark.batch([("a", 4, 2_932_897)] * rows, MIN_TIME)
