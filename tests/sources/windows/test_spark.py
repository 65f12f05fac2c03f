"""Windows on real Spark give what the pure operator gives for the same batches.

Many windowed streams are written by one query: its sources are alike, so all have the same batches and watermark.
"""

import json
from collections import defaultdict
from datetime import timedelta

import pytest
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource, append
from tests.support.streams import available_now
from tidegate import WatermarkStrategy
from tidegate.sources.bridge import END_OF_TIME_MS
from tidegate.windows import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tidegate.windows.testing import WindowHarness
from tidegate.windows.window import MAX_TIME, MIN_TIME

PARTITIONS = "spark.sql.shuffle.partitions"
SECOND = 1_000
BEGIN = -20 * SECOND  # some rows and windows are from before 1970, where Spark has no watermark
OF_WINDOWS = ["window_start", "window_end", "output", "late_row"]


def seconds(count):
    return timedelta(seconds=count)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two splits out of order by up to 10 s, in batches of 40 rows; some rows come much later than that."""
    path = str(tmp_path_factory.mktemp("source") / "splits.json")
    times = {
        name: [BEGIN + (second * 7 % 10 + second // 10 * 10) * SECOND for second in range(shift, 120 + shift)]
        for name, shift in {"a": 0, "b": 3}.items()
    }
    for place, behind in {60: 15, 70: 40, 90: 25, 91: 26, 115: 90}.items():
        times["a"][place] -= behind * SECOND
    append(path, **times)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(seconds(10))
    return MemorySource(path=path, watermarks=strategy, max_rows_per_trigger=40)


class Positions(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [{"positions": sorted(row["position"] for row in elements)}]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value["position"], accumulator[1] + 1

    def get_result(self, accumulator):
        return {"mean": accumulator[0] / accumulator[1]}

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


WINDOWS = {
    "tumbling": (TumblingEventTimeWindows.of(seconds(5)), None, 30),
    "sliding": (SlidingEventTimeWindows.of(seconds(7), seconds(3)), None, 0),
    "sessions": (EventTimeSessionWindows.with_gap(seconds(1)), None, 20),
    "continuous": (TumblingEventTimeWindows.of(timedelta(days=1)), ContinuousEventTimeTrigger.of(seconds(30)), 0),
    "counted": (GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(7)), 0),
}
AGGREGATES = {"rows": "count(*)", "total": "sum(position)", "mean": "round(sum(position * 2) / count(position), 3)"}
AGGREGATES |= {"least": "min(position)", "last": "max(timestamp)", "even": "count(*) FILTER (WHERE position % 2 = 0)"}
AGGREGATES |= {"price": "avg(CAST(position * 0.37 AS DECIMAL(8, 2)))", "odd": "count_if(position % 2 = 1)"}
SHIFTED = TumblingEventTimeWindows.of(seconds(5), seconds(2))
OVERLAPPING = SlidingEventTimeWindows.of(seconds(7), seconds(3), seconds(-1))


def gap_of(row):
    return seconds(1 + row["position"] % 2)


def windows_of(rows, assigner, trigger=None, lateness=0):
    windows = tidegate.windowed(rows, "split", "timestamp").window(assigner).allowed_lateness(seconds(lateness))
    return windows if trigger is None else windows.trigger(trigger)


def with_steps(source, spark):
    return source.read_stream(spark).where("position >= 0").withColumn("split", f.upper("split"))


def doubled_in_pandas(batches):
    for batch in batches:
        yield batch.assign(position=batch.position * 2)


def as_rows(name, windows):
    """Return windows in columns that all of them have."""
    results = [column for column in windows.columns if column not in {"split", *OF_WINDOWS}]
    has_output = "output" in windows.columns
    return windows.select(
        f.lit(name).alias("name"),
        "split",
        f.unix_millis("window_start").alias("start"),
        f.unix_millis("window_end").alias("end"),
        f.to_json(f.struct(*results)).alias("results"),
        f.col("output") if has_output else f.lit("results").alias("output"),
        (f.to_json("late_row") if has_output else f.lit(None).cast("string")).alias("late"),
    )


def told(source, spark):
    """Return the rows with the watermarks of their batch, as ``as_rows`` has it."""
    rows = source.telling_watermarks(previous=True).read_stream(spark)
    columns = {"position": "position", "time": "unix_millis(timestamp)"}
    columns |= {name: f"unix_millis({name}_watermark)" for name in ("source", "previous_source")}
    row = f.to_json(f.struct(*(f.expr(text).alias(name) for name, text in columns.items())))
    nothing = f.lit(None)
    return rows.select(
        f.lit("told").alias("name"),
        "split",
        nothing.cast("long").alias("start"),
        nothing.cast("long").alias("end"),
        row.alias("results"),
        f.lit("results").alias("output"),
        nothing.cast("string").alias("late"),
    )


def operators(source, spark):
    """Return streams of windows that the operator keeps, by name."""
    rows = source.read_stream(spark)
    streams = {
        name: windows_of(rows, assigner, trigger, lateness)
        .side_output_late("late")
        .process(Positions(), "positions array<bigint>")
        for name, (assigner, trigger, lateness) in WINDOWS.items()
    }
    sessions = windows_of(rows, EventTimeSessionWindows.with_gap(seconds(1)))
    moved = DeltaTrigger.of(49, lambda last, row: abs(row["position"] - last["position"]))
    dynamic = windows_of(rows, DynamicEventTimeSessionWindows.with_dynamic_gap(gap_of))
    in_pandas = rows.mapInPandas(doubled_in_pandas, rows.schema)
    united = rows.where("split = 'a'").union(rows.where("split = 'b'"))
    by_seven = tidegate.windowed(rows, "split").window(GlobalWindows.create())
    return streams | {
        "with steps": windows_of(with_steps(source, spark), SHIFTED).side_output_late("late").aggregate(**AGGREGATES),
        "mean": sessions.aggregate(Mean(), schema="mean double"),
        "greatest": sessions.reduce(lambda one, other: max(one, other, key=lambda row: row["position"])).drop(
            "timestamp"
        ),
        "moved": windows_of(rows, GlobalWindows.create(), PurgingTrigger.of(moved)).aggregate(rows="count(*)"),
        "dynamic": dynamic.side_output_late("late").aggregate(total="sum(position)"),
        "one split": windows_of(rows.where("split = 'a'"), SHIFTED).side_output_late("late").aggregate(n="count(*)"),
        "in pandas": windows_of(in_pandas, SHIFTED).aggregate(total="sum(position)"),
        "united": windows_of(united, SHIFTED).aggregate(total="sum(position)"),
        "without time": by_seven.trigger(PurgingTrigger.of(CountTrigger.of(7))).aggregate(rows="count(*)"),
    }


class Written:
    """What a query wrote: results as (split, start, end, values), late rows, and the rows with their watermarks."""

    def __init__(self, run):
        self.results, self.late = defaultdict(list), defaultdict(list)
        self.told = [[row for row in batch if row["name"] == "told"] for batch in run.rows.values()]
        for row in run.all_rows:
            if row["output"] == "late":
                self.late[row["name"]].append(json.loads(row["late"]))
            else:
                values = json.loads(row["results"])
                self.results[row["name"]].append((row["split"], row["start"], row["end"], values))

    def values(self, name):
        """Return results as sorted tuples."""
        return sorted(((*window, *values.values()) for *window, values in self.results[name]), key=str)


def written(spark, streams, folder):
    """Write streams by one query, with one task for each of their stateful steps."""
    frames = [as_rows(name, windows) for name, windows in streams.items() if name != "told"]
    union = streams["told"] if "told" in streams else frames.pop()
    for frame in frames:
        union = union.union(frame)
    partitions = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, 1)
    try:
        return Written(available_now(union, folder, seconds=500))
    finally:
        spark.conf.set(PARTITIONS, partitions)


@pytest.fixture(scope="module")
def ran(spark, source, tmp_path_factory):
    """What one query wrote of all streams of windows that the operator keeps."""
    streams = {"told": told(source, spark), **operators(source, spark)}
    return written(spark, streams, tmp_path_factory.mktemp("operators"))


@pytest.fixture(scope="module")
def by_spark(spark, source, tmp_path_factory):
    """What one query wrote of all windows that Spark keeps; in a query with others they would go by their watermark."""
    rows = source.read_stream(spark)
    streams = {
        "with steps": windows_of(with_steps(source, spark), SHIFTED).aggregate(**AGGREGATES),
        "overlapping": windows_of(rows, OVERLAPPING).aggregate(total="sum(position)"),
    }
    return written(spark, streams, tmp_path_factory.mktemp("native"))


def of_harness(harness, ran):
    """Hand the batches of the source to the pure operator, and return what fired and what was late."""
    after = None
    for batch in ran.told:
        rows = [(row["split"], json.loads(row["results"])) for row in batch]
        for _, row in rows[:1]:
            harness.watermark(watermark(row.get("previous_source")))
            after = row.get("source")
        for split, row in sorted(rows, key=lambda pair: (pair[0] or "", pair[1].get("position", 0))):
            if "time" in row:
                harness.element(split, {"position": row["position"]}, row["time"])
    harness.watermark(watermark(after))
    panes = [(p.key, p.start_ms, p.end_ms, sorted(row["position"] for row in p.rows)) for p in harness.panes]
    return sorted(panes, key=str), sorted(row["position"] for row in harness.late)


def watermark(time_ms):
    """Return what Spark makes of a watermark: it has none before 1970."""
    if time_ms is None or time_ms <= 0:
        return MIN_TIME
    return MAX_TIME if time_ms == END_OF_TIME_MS else time_ms


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_fire_with_the_rows_of_the_pure_operator(ran, name):
    assigner, trigger, lateness = WINDOWS[name]
    expected, late = of_harness(WindowHarness(assigner, trigger, None, seconds(lateness)), ran)
    assert any(start is None or start < 0 for _, start, _, _ in expected)
    assert ran.values(name) == expected
    assert sorted(row["position"] for row in ran.late[name]) == late
    assert bool(late) == (name in {"tumbling", "sliding", "sessions"})
    assert {frozenset(row) for row in ran.late[name]} <= {frozenset({"split", "position", "timestamp"})}


def test_sessions_with_a_gap_of_each_row_s_own_take_sql_aggregates(ran):
    expected, late = of_harness(WindowHarness(DynamicEventTimeSessionWindows.with_dynamic_gap(gap_of)), ran)
    assert expected
    assert ran.values("dynamic") == sorted(((*window, sum(rows)) for *window, rows in expected), key=str)
    assert sorted(row["position"] for row in ran.late["dynamic"]) == late


def test_spark_s_own_aggregation_and_the_operator_give_the_same_and_drop_the_same(ran, by_spark):
    expected, late = of_harness(WindowHarness(SHIFTED), ran)
    assert late
    assert by_spark.values("with steps") == ran.values("with steps")
    counts = [(split.upper(), start, end, len(positions)) for split, start, end, positions in expected]
    assert sorted((*window, values["rows"]) for *window, values in by_spark.results["with steps"]) == sorted(counts)
    assert any(end <= 0 for _, _, end, _ in counts)


def test_sliding_windows_of_spark_are_those_of_flink_also_where_the_slide_does_not_divide_the_size(ran, by_spark):
    expected, _ = of_harness(WindowHarness(OVERLAPPING), ran)
    assert by_spark.values("overlapping") == sorted(((*window, sum(rows)) for *window, rows in expected), key=str)


def test_python_functions_aggregate_and_reduce(ran):
    expected, _ = of_harness(WindowHarness(EventTimeSessionWindows.with_gap(seconds(1))), ran)
    assert ran.values("mean") == sorted(((*window, sum(rows) / len(rows)) for *window, rows in expected), key=str)
    assert ran.values("greatest") == sorted(((*window, max(rows)) for *window, rows in expected), key=str)


def test_a_trigger_that_compares_rows_sees_their_columns_beside_sql_aggregates(ran):
    assert {values["rows"] for *_, values in ran.results["moved"]} <= {50, 51}
    assert {split for split, *_ in ran.results["moved"]} == {"a", "b"}


def test_steps_that_know_nothing_of_the_watermark_may_be_below_windows(ran):
    expected, _ = of_harness(WindowHarness(SHIFTED), ran)
    totals = [(*window, sum(rows)) for *window, rows in expected]
    assert ran.values("united") == sorted(totals, key=str)
    assert ran.values("in pandas") == sorted(((*window, 2 * total) for *window, total in totals), key=str)


def test_rows_that_only_tell_the_watermark_close_windows_and_open_none(ran):
    of_a = [(split, start, end, len(rows)) for split, start, end, rows in of_harness(WindowHarness(SHIFTED), ran)[0]]
    assert ran.values("one split") == sorted((window for window in of_a if window[0] == "a"), key=str)
    assert {row["split"] for row in ran.late["one split"]} == {"a"}


def test_windows_that_rows_alone_make_fire_need_no_time(ran):
    counts = [("a", None, None, 7)] * 17 + [("b", None, None, 7)] * 17
    assert ran.values("without time") == counts
