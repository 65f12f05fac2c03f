"""Windows on real Spark give the results of the pure operator for the same batches.

One query writes many windowed streams: its sources are alike, so all streams have the same batches and watermark.
"""

import json
from collections import defaultdict
from datetime import timedelta
from functools import reduce

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource, append, load
from tests.support.streams import available_now
from tests.windows.spark.replay import KINDS, column_of, each_alone, replayed
from tidegate import WatermarkStrategy
from tidegate.enumerators.planning.offset import Offset
from tidegate.sources.progress.query import QueryProgress
from tidegate.windows import (
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tidegate.windows.spark.buckets import balanced
from tidegate.windows.spark.results import kept_windows
from tidegate.windows.testing import WindowHarness

PARTITIONS = "spark.sql.shuffle.partitions"
SECOND = 1_000
BEGIN = -20 * SECOND  # some rows and windows are from before 1970, where Spark has no watermark
OF_WINDOWS = ["window_start", "window_end", "output", "late_row", "least_row"]


def seconds(count):
    return timedelta(seconds=count)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two splits out of order by up to 10 s, in batches of 60 rows; some rows come much later."""
    path = str(tmp_path_factory.mktemp("source") / "splits.json")
    times = {
        name: [BEGIN + (second * 7 % 10 + second // 10 * 10) * SECOND for second in range(shift, 120 + shift)]
        for name, shift in {"a": 0, "b": 3}.items()
    }
    for place, behind in {60: 15, 70: 40, 90: 25, 91: 26, 115: 90}.items():
        times["a"][place] -= behind * SECOND
    append(path, **times)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(seconds(10))
    return MemorySource(path=path, watermarks=strategy, max_rows_per_trigger=60)


class Positions(ProcessWindowFunction):
    def process(self, key, context, elements):
        context.output("least", {"position": min(row["position"] for row in elements)})
        return [{"positions": sorted(row["position"] for row in elements)}]


SESSIONS = EventTimeSessionWindows.with_gap(seconds(1))
AGGREGATES = {"rows": "count(*)", "total": "sum(position)", "mean": "round(sum(position * 2) / count(position), 3)"}
AGGREGATES |= {"least": "min(position)", "last": "max(timestamp)", "even": "count(*) FILTER (WHERE position % 2 = 0)"}
AGGREGATES |= {"price": "avg(CAST(position * 0.37 AS DECIMAL(8, 2)))", "odd": "count_if(position % 2 = 1)"}
SUMS = {"rows": "count(*)", "total": "sum(position)", "last": "max(position)", "mean": "avg(position)"}
SEVEN = PurgingTrigger.of(CountTrigger.of(7))
SHIFTED = TumblingEventTimeWindows.of(seconds(5), seconds(2))
OVERLAPPING = SlidingEventTimeWindows.of(seconds(7), seconds(3), seconds(-1))


def gap_of(row):
    position = row["position"] // (2 if row.get("split") == "a" else 1)  # doubled_in_pandas
    return seconds(1 + position % 2)


def windows_of(rows, assigner, lateness=0):
    return tidegate.windowed(rows, "split", "timestamp").window(assigner).allowed_lateness(seconds(lateness))


def greatest(one, other):
    return max(one, other, key=lambda row: row["position"])


def with_steps(source, spark):
    upper = source.read_stream(spark).where("position >= 0").withColumn("split", f.upper("split"))
    return upper.withColumn("tags", f.expr("map(split, array(struct(position)))"))


def doubled_in_pandas(batches):
    for batch in batches:
        yield batch.assign(position=batch.position * 2)


def as_rows(name, windows):
    """Return windows with the same columns for all streams."""
    results = [column for column in windows.columns if column not in {"split", *OF_WINDOWS}]
    rows = [f.to_json(column) for column in windows.columns if column.endswith("_row")]
    return windows.select(
        f.lit(name).alias("name"),
        "split",
        f.unix_millis("window_start").alias("start"),
        f.unix_millis("window_end").alias("end"),
        f.to_json(f.struct(*results)).alias("results"),
        f.col("output") if rows else f.lit("results").alias("output"),
        f.coalesce(*rows, f.lit(None).cast("string")).alias("row"),
    )


def operators(source, spark):
    """Return streams of windows that the operator keeps, by name."""
    rows = source.read_stream(spark)
    of_a, of_b = rows.where("split = 'a'"), rows.where("split = 'b'")
    mixed = of_a.mapInPandas(doubled_in_pandas, rows.schema).union(of_b)
    dynamic = windows_of(mixed, DynamicEventTimeSessionWindows.with_dynamic_gap(gap_of))
    sessions = windows_of(rows, SESSIONS, lateness=20).side_output_late("late").side_output("least", "position bigint")
    by_seven = tidegate.windowed(rows, "split").window(GlobalWindows.create()).trigger(SEVEN)
    return {
        "sessions": sessions.process(Positions(), "positions array<bigint>"),
        "with steps": windows_of(with_steps(source, spark), SHIFTED).side_output_late("late").aggregate(**AGGREGATES),
        "dynamic": dynamic.aggregate(total="sum(position)"),
        "sums": windows_of(rows, SHIFTED, lateness=20).aggregate(**SUMS),
        "kinds": kinds_of_keys(rows).buckets(4).side_output_late("late").aggregate(rows="count(*)"),
        "without time": by_seven.reduce(greatest).drop("timestamp"),
    }


def kinds_of_keys(rows):
    """Return windows of rows, each of which has a key of one kind."""
    alone = each_alone(rows, "position * 2 + IF(split = 'b', 1, 0)")
    keys = ["split", *map(column_of, KINDS)]
    return tidegate.windowed(alone, keys, "timestamp").window(SHIFTED)


class Written:
    """The output of a query: results as (split, start, end, values), late rows, and rows of the other side output."""

    def __init__(self, run, checkpoint):
        self.results, self.late, self.checkpoint = defaultdict(list), defaultdict(list), checkpoint
        self.least, self.dropped = (
            [],
            sum(QueryProgress.parse(said.json).late_dropped for said in run.progress.values()),
        )
        self.open = {}
        for said in run.progress.values():
            self.open |= kept_windows(QueryProgress.parse(said.json).observed)
        for row in run.all_rows:
            if row["output"] == "late":
                self.late[row["name"]].append(json.loads(row["row"]))
            elif row["output"] == "least":
                self.least.append((row["split"], row["start"], row["end"], json.loads(row["row"])["position"]))
            else:
                values = json.loads(row["results"])
                self.results[row["name"]].append((row["split"], row["start"], row["end"], values))

    def values(self, name):
        """Return results as sorted tuples."""
        return sorted(((*window, *values.values()) for *window, values in self.results[name]), key=str)


def written(spark, streams, folder):
    """Write streams by one query, with one task for each of their stateful steps."""
    union = reduce(DataFrame.union, [as_rows(name, windows) for name, windows in streams.items()])
    partitions = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, 1)
    try:
        return Written(available_now(union, folder), folder)
    finally:
        spark.conf.set(PARTITIONS, partitions)


@pytest.fixture(scope="module")
def ran(spark, source, tmp_path_factory):
    """The output of one query with all streams of windows that the operator keeps."""
    return written(spark, operators(source, spark), tmp_path_factory.mktemp("operators"))


@pytest.fixture(scope="module")
def by_spark(spark, source, tmp_path_factory):
    """The output of one query with all windows that Spark keeps; a query has one watermark for all its streams."""
    rows = source.read_stream(spark)
    streams = {
        "with steps": windows_of(with_steps(source, spark), SHIFTED).aggregate(**AGGREGATES),
        "overlapping": windows_of(rows, OVERLAPPING).aggregate(total="sum(position)"),
        "kinds": kinds_of_keys(rows).aggregate(rows="count(*)"),
    }
    return written(spark, streams, tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def expect(source, ran):
    """Takes windows, and returns the results that fire and the late rows, by the pure operator."""

    def expected(assigner, lateness=0):
        harness = WindowHarness(assigner, allowed_lateness=seconds(lateness))
        splits = {split: (split, [time for _, time in rows]) for split, rows in load(source.path).items()}
        return replayed(harness, ran.checkpoint, splits, "position")

    return expected


def test_windows_fire_with_the_rows_of_the_pure_operator(ran, expect):
    expected, late = expect(SESSIONS, lateness=20)
    assert any(start < 0 for _, start, _, _ in expected)
    assert ran.values("sessions") == expected
    assert sorted(ran.least) == sorted((*window, rows[0]) for *window, rows in expected)
    assert sorted(row["position"] for row in ran.late["sessions"]) == late
    assert late
    assert {frozenset(row) for row in ran.late["sessions"]} == {frozenset({"split", "position", "timestamp"})}


def test_the_progress_tells_what_each_operator_keeps_in_each_bucket(ran):
    assert len({operator for operator, _ in ran.open}) == 6
    assert {bucket for _, bucket in ran.open} <= {*range(4), *balanced(1).tolist()}
    assert all(kept.number > 0 for kept in ran.open.values() if kept.due is not None)


def test_late_rows_have_columns_with_maps_and_structs(ran):
    late = ran.late["with steps"]
    assert late
    assert [row["tags"] for row in late] == [{row["split"]: [{"position": row["position"]}]} for row in late]


def test_sessions_with_gaps_of_rows_take_sql_aggregates_also_above_steps_that_know_nothing_of_the_watermark(
    ran, expect
):
    expected, late = expect(DynamicEventTimeSessionWindows.with_dynamic_gap(gap_of))
    assert expected
    totals = [(*window, sum(rows) * (2 if window[0] == "a" else 1)) for *window, rows in expected]
    assert ran.values("dynamic") == sorted(totals, key=str)
    assert ran.dropped == len(late) + len(expect(SHIFTED, lateness=20)[1])
    assert late


def test_spark_s_own_aggregation_and_the_operator_give_the_same_and_drop_the_same(ran, by_spark, expect):
    expected, late = expect(SHIFTED)
    assert late
    assert by_spark.values("with steps") == ran.values("with steps")
    counts = [(split.upper(), start, end, len(positions)) for split, start, end, positions in expected]
    assert sorted((*window, values["rows"]) for *window, values in by_spark.results["with steps"]) == sorted(counts)
    assert any(end <= 0 for _, _, end, _ in counts)


def test_rows_that_tasks_of_the_source_sum_up_fire_as_often_and_with_the_same_aggregates_as_single_rows(ran, expect):
    expected, late = expect(SHIFTED, lateness=20)
    assert late
    assert len(expected) > len({tuple(window) for *window, _ in expected})  # late rows fire again
    sums = [(*window, len(rows), sum(rows), max(rows), sum(rows) / len(rows)) for *window, rows in expected]
    assert ran.values("sums") == sorted(sums, key=str)


def test_keys_of_every_kind_are_those_of_spark_s_own_groups(ran, by_spark):
    assert {split for split, *_ in ran.results["kinds"]} == KINDS.keys()
    assert ran.values("kinds") == by_spark.values("kinds")


def test_late_rows_that_spark_s_own_aggregation_drops_are_counted(ran, by_spark, expect):
    expected = [len(ran.late["with steps"]), len(ran.late["kinds"]), len(expect(OVERLAPPING)[1])]
    assert min(expected) > 0
    assert by_spark.dropped == sum(expected)


def test_sliding_windows_of_spark_are_those_of_flink_also_where_the_slide_does_not_divide_the_size(by_spark, expect):
    expected, _ = expect(OVERLAPPING)
    assert by_spark.values("overlapping") == sorted(((*window, sum(rows)) for *window, rows in expected), key=str)


def test_windows_of_spark_are_described_in_the_checkpoint_so_that_a_restart_with_others_is_refused(by_spark):
    reported = [described for described in described_in(by_spark.checkpoint) if "min(position)" in str(described)]
    assert [windows["assigner"] for windows in reported] == ["TumblingEventTimeWindows(offset=2000, size=5000)"]
    assert [windows["rows"] for windows in reported] == ["single, because of a filter, an expression or an aggregate"]


def described_in(checkpoint):
    """Return how the offsets of the first batch describe the windows of each source."""
    _, _, *offsets = (checkpoint / "offsets" / "0").read_text().splitlines()
    return [Offset.recognized(json.loads(offset)).add_ons["windows"] for offset in offsets]


def test_windows_that_rows_alone_make_fire_need_no_time_and_python_functions_reduce_them(ran):
    greatest_of_seven = [(split, None, None, position) for split in "ab" for position in range(6, 119, 7)]
    assert ran.values("without time") == sorted(greatest_of_seven, key=str)
