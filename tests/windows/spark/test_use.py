"""The calls of users before a query runs: mistakes, the plan of the windows, and the columns that functions see."""

import re
from datetime import datetime, timedelta
from typing import ClassVar

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource
from tests.windows.test_at_once import First
from tidegate import OptionError, WatermarkStrategy
from tidegate.windows import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from tidegate.windows.spark import buckets, operating
from tidegate.windows.spark.relations import check_can_stream

FIVE = TumblingEventTimeWindows.of(timedelta(seconds=5))
SESSIONS = EventTimeSessionWindows.with_gap(timedelta(seconds=1))
TIMED_OUT = ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), timedelta(seconds=1))
COUNTED = PurgingTrigger.of(CountTrigger.of(2))
ENDLESS = PurgingTrigger.of(ContinuousEventTimeTrigger.of(timedelta(seconds=1)))
SESSIONS_OF_THE_CLOCK = ProcessingTimeSessionWindows.with_gap(timedelta(seconds=1))


class Keeps(ProcessWindowFunction):
    def process(self, key, context, elements):
        return elements


class OfTwo(ProcessWindowFunction):
    def process(self, key, elements):
        return []


def rate(spark):
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()


def files(spark, rows, folder):
    return spark.readStream.schema(rows.schema).parquet(str(folder))


# Takes the rows of a source, windows over them, a session and a folder.
MISTAKES = {
    "the stream has no column 'splits'; did you mean 'split'": lambda r, w, s, p: tidegate.windowed(
        r, "splits", "timestamp"
    ),
    "the key 'Window_End' has the name of a column of the results": lambda r, w, s, p: tidegate.windowed(
        r.withColumnRenamed("split", "Window_End"), "Window_End", "timestamp"
    ),
    "the event time 'position' is bigint, but must be timestamp.*timestamp_millis": lambda r, w, s, p: (
        tidegate.windowed(r, "split", "position")
    ),
    "the event time 'local' is timestamp_ntz": lambda r, w, s, p: tidegate.windowed(
        r.withColumn("local", f.col("timestamp").cast("timestamp_ntz")), "split", "local"
    ),
    "EndOfStreamTrigger goes by event time: name it": lambda r, w, s, p: (
        tidegate.windowed(r, "split").window(GlobalWindows.create_with_end_of_stream_trigger()).aggregate(n="count(*)")
    ),
    r"evictor\(\) takes an evictor": lambda r, w, s, p: w.evictor(3),
    r"trigger\(\) takes a trigger": lambda r, w, s, p: w.trigger(FIVE),
    r"window\(\) takes an assigner": lambda r, w, s, p: w.window(timedelta(seconds=5)),
    r"process\(\) takes a ProcessWindowFunction": lambda r, w, s, p: w.process(lambda *_: [], "n bigint"),
    r"process\(\) takes a ProcessWindowFunction .* not <class .*OfTwo.*an object of the class": lambda r, w, s, p: (
        w.process(OfTwo, "n bigint")
    ),
    "OfTwo.process must take key, context and elements, and .* cannot be called with three": lambda r, w, s, p: (
        w.process(OfTwo(), "n bigint")
    ),
    r"aggregate\(\) takes a ProcessWindowFunction of tidegate.windows, not <built-in": lambda r, w, s, p: w.aggregate(
        First(), max, schema="n int"
    ),
    r"reduce\(\) takes a function of two rows, which returns one, and .*row. cannot be": lambda r, w, s, p: w.reduce(
        lambda row: row
    ),
    "takes an AggregateFunction": lambda r, w, s, p: w.aggregate(lambda *_: 1, schema="n int"),
    "expression of Spark needs the name of its result": lambda r, w, s, p: w.aggregate("count(*)"),
    "must be the text of an expression": lambda r, w, s, p: w.aggregate(n=f.count("*")),
    "windows need a key": lambda r, w, s, p: tidegate.windowed(r, []),
    "name it, as windowed": lambda r, w, s, p: tidegate.windowed(r, "split").window(FIVE),
    r"call window\(\) first": lambda r, w, s, p: tidegate.windowed(r, "split").aggregate(n="count(*)"),
    "needs schema=": lambda r, w, s, p: w.aggregate(First()),
    "takes an aggregate function, or": lambda r, w, s, p: w.aggregate(),
    r"uses stddev\(position\), which Spark keeps": lambda r, w, s, p: w.side_output_late("late").aggregate(
        n="1 + stddev(position)"
    ),
    "needs an aggregate, such as count.*, and finds none in '1'": lambda r, w, s, p: w.side_output_late(
        "late"
    ).aggregate(n="1"),
    "cannot take 'concat.split, count....' apart: .*; use a Python function, or a window": lambda r, w, s, p: (
        w.side_output_late("late").aggregate(n="concat(split, count(*))")
    ),
    "'max.split COLLATE UTF8_LCASE.' is string collate UTF8_LCASE, and the operator": lambda r, w, s, p: (
        w.side_output_late("late").aggregate(n="max(split COLLATE UTF8_LCASE)")
    ),
    "'max.struct.position..' is struct<position:bigint>, and the operator .* compares single": lambda r, w, s, p: (
        w.side_output_late("late").aggregate(n="max(struct(position)).position")
    ),
    "n='1 . mean_in_pandas.position.' has an aggregate that is a pandas function": lambda r, w, s, p: w.aggregate(
        n="1 + mean_in_pandas(position)"
    ),
    "Spark cannot take n='sum.positoin.': .* with name `positoin` cannot be resolved": lambda r, w, s, p: w.aggregate(
        n="sum(positoin)"
    ),
    "Spark cannot take n='sum.position': Syntax error": lambda r, w, s, p: w.aggregate(n="sum(position"),
    "Spark cannot take n='count.DISTINCT position.' for these windows: Distinct aggregations are not supported": (
        lambda r, w, s, p: w.aggregate(n="count(DISTINCT position)")
    ),
    "Spark cannot take n='explode.array.max.position...' for these windows: The generator is not supported": (
        lambda r, w, s, p: w.side_output_late("late").aggregate(n="explode(array(max(position)))")
    ),
    "late rows already go to the side output 'late'": lambda r, w, s, p: w.side_output_late("late").side_output_late(
        "more"
    ),
    "buckets=0 must be at least 1": lambda r, w, s, p: w.buckets(0),
    "buckets='8' must be a whole number": lambda r, w, s, p: w.buckets("8"),
    "allowed_lateness is 5, but must be a datetime.timedelta": lambda r, w, s, p: w.allowed_lateness(5),
    "allowed_lateness=-1 day, 23:59:59 must not be negative": lambda r, w, s, p: w.allowed_lateness(
        timedelta(seconds=-1)
    ),
    "the side output must have a name, such as 'late', and not None": lambda r, w, s, p: w.side_output_late(None),
    "only a process function gives rows to the side output 'large'": lambda r, w, s, p: w.side_output(
        "large", "n int"
    ).aggregate(n="count(*)"),
    "there is already a side output 'Late'": lambda r, w, s, p: w.side_output_late("late").side_output("Late", "n int"),
    "the key 'late_row' has the name of a column of the results": lambda r, w, s, p: tidegate.windowed(
        r.withColumnRenamed("split", "late_row"), "late_row", "timestamp"
    ).side_output_late("late"),
    "the result 'large_row' has the name of another": lambda r, w, s, p: w.side_output("large", "n int").process(
        Keeps(), "large_row int"
    ),
    "the batch has no side output 'lat', whose rows would be in the column 'lat_row': name it": lambda r, w, s, p: (
        tidegate.split_outputs(w.side_output_late("late").aggregate(n="count(*)"), "late", "lat")
    ),
    "side output 'late', whose rows": lambda r, w, s, p: tidegate.split_outputs(w.aggregate(n="count(*)"), "late"),
    r"takes the names of side outputs, such as 'late', and not \['late'\]": lambda r, w, s, p: tidegate.split_outputs(
        w.side_output_late("late").aggregate(n="count(*)"), ["late"]
    ),
    "the batch has no side outputs: its rows are all results": lambda r, w, s, p: tidegate.split_outputs(
        w.aggregate(n="count(*)")
    ),
    "a side output is called 'a`b', a name with a backtick": lambda r, w, s, p: w.side_output_late("a`b"),
    "the aggregate 'n' must be the text of an expression": lambda r, w, s, p: w.explain(n=f.count("*")),
    "takes a schema with an aggregate function only": lambda r, w, s, p: w.aggregate(schema="n int", n="count(*)"),
    "schema is 'n bigintt', but: Unsupported data type .BIGINTT.": lambda r, w, s, p: w.aggregate(
        First(), schema="n bigintt"
    ),
    "key=5 must be the name of a column": lambda r, w, s, p: tidegate.windowed(r, 5, "timestamp"),
    "event_time=.'timestamp'. must be the name of a column": lambda r, w, s, p: tidegate.windowed(
        r, "split", ["timestamp"]
    ),
    r"windowed\(\) takes a DataFrame, and not a NoneType": lambda r, w, s, p: tidegate.windowed(None, "split"),
    "the key 'split' is named twice": lambda r, w, s, p: tidegate.windowed(r, ["split", "split"]),
    "the stream has several columns 'split': rename": lambda r, w, s, p: tidegate.windowed(
        r.withColumnRenamed("position", "SPLIT").select("*", f.lit(1).alias("Split")), "split"
    ),
    "several columns 'position', and the windows need whole rows": lambda r, w, s, p: (
        tidegate.windowed(r.select("*", f.lit(1).alias("position")), "split", "timestamp")
        .window(FIVE)
        .side_output_late("late")
        .aggregate(n="count(*)")
    ),
    "the stream has a column '__time', a name that windows use themselves": lambda r, w, s, p: tidegate.windowed(
        r.withColumnRenamed("position", "__time"), "split"
    ),
    "results of a stateful step, such as other windows, which may be late .* side_output_late": lambda r, w, s, p: (
        tidegate.windowed(w.aggregate(n="count(*)"), "split", "window_end").window(FIVE).aggregate(m="sum(n)")
    ),
    "a step in processing time, such as windows with a time-out, and Spark has no watermark behind it": (
        lambda r, w, s, p: (
            tidegate.windowed(w.trigger(TIMED_OUT).aggregate(n="count(*)"), "split", "window_end")
            .window(FIVE)
            .side_output_late("late")
            .aggregate(m="sum(n)")
        )
    ),
    "cannot take a column: YearMonthIntervalType.* is not supported in conversion to Arrow": lambda r, w, s, p: (
        tidegate.windowed(r.withColumn("months", f.expr("INTERVAL '1' MONTH")), "months", "timestamp")
        .window(SESSIONS)
        .aggregate(n="count(*)")
    ),
    "the key 'kind' is string collate UTF8_LCASE, and the state .* lower.kind. COLLATE UTF8_BINARY": (
        lambda r, w, s, p: tidegate.windowed(r.withColumn("kind", f.expr("split COLLATE UTF8_LCASE")), "kind")
    ),
    "the schema has no column": lambda r, w, s, p: w.process(Keeps(), ""),
    "the schema has no column: the results": lambda r, w, s, p: (
        tidegate.windowed(r.select("split"), "split").window(SESSIONS_OF_THE_CLOCK).reduce(max)
    ),
    "results of a stateful step, such": lambda r, w, s, p: (
        tidegate.windowed(r.join(r.selectExpr("split", "position AS other"), "split"), "split", "timestamp")
        .window(FIVE)
        .aggregate(n="count(*)")
    ),
    "a result is called '__end', a name that windows": lambda r, w, s, p: w.aggregate(__end="count(*)"),
    "a result is called '`n`', a name with a backtick": lambda r, w, s, p: w.aggregate(**{"`n`": "count(*)"}),
    "the result 'N' has the name of another column": lambda r, w, s, p: w.aggregate(N="count(*)", n="sum(position)"),
    "use readStream": lambda r, w, s, p: tidegate.windowed(s.range(3), "id"),
    "the source 'rate-micro-batch' has none": lambda r, w, s, p: (
        tidegate.windowed(rate(s), "value", "timestamp").window(FIVE).aggregate(n="count(*)")
    ),
    "the source 'FileSource.*' has none: use withWatermark": lambda r, w, s, p: (
        tidegate.windowed(files(s, r, p), "split", "timestamp").window(FIVE).aggregate(n="count(*)")
    ),
    "the source 'FileSource.*' has none": lambda r, w, s, p: (
        tidegate.windowed(r.union(files(s, r, p)), "split", "timestamp").window(FIVE).aggregate(n="count(*)")
    ),
}


@pytest.mark.usefixtures("functions_of_the_user")
@pytest.mark.parametrize("reported", MISTAKES)
def test_a_mistake_is_told_at_once_in_one_sentence(spark, rows, windows, tmp_path, reported):
    with pytest.raises(OptionError, match=reported) as raised:
        MISTAKES[reported](rows, windows, spark, tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_time_without_a_zone_becomes_the_instant_for_which_a_source_takes_it(spark, rows, zone):
    """With another one, rows east of Greenwich would be behind the watermark of their own source."""
    times = ["2026-03-08 02:30:00", "2026-03-29 02:30:00", "2026-10-25 02:30:00", "2026-11-01 01:30:00"]
    with pytest.raises(OptionError, match="which sources take for UTC") as raised:
        tidegate.windowed(rows.withColumn("at", f.lit(times[0]).cast("timestamp_ntz")), "split", "at")
    conversion = re.search(r"CAST.*", str(raised.value))[0]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        local = spark.createDataFrame([(time,) for time in times], "at string").selectExpr("CAST(at AS TIMESTAMP_NTZ)")
        instants = [ms for (ms,) in local.select(f.unix_millis(f.expr(conversion))).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert instants == [int(datetime.fromisoformat(f"{time}+00:00").timestamp() * 1000) for time in times]


def test_a_source_without_watermarks_is_told(spark, source):
    without = source.model_copy(update={"watermarks": WatermarkStrategy.no_watermarks()})
    stream = tidegate.windowed(without.read_stream(spark), "split", "timestamp").window(FIVE)
    with pytest.raises(OptionError, match="the source has no watermarks"):
        stream.aggregate(n="count(*)")


class OfOddName(MemorySource):
    connector: ClassVar[str] = "odd"

    @property
    def arrow_schema(self):
        return super().arrow_schema.append(pa.field("__watermark", pa.string()))


def test_a_source_with_a_column_called_as_the_watermark_of_windows_is_told_also_where_a_step_renames_it(spark):
    rows = OfOddName(path="").read_stream(spark).withColumnRenamed("__watermark", "mark")
    stream = tidegate.windowed(rows, "split", "timestamp").window(FIVE)
    with pytest.raises(OptionError, match="a source of the stream has a column '__watermark', a name that windows"):
        stream.aggregate(n="count(*)")


def test_a_step_may_have_a_column_called_as_the_watermark_of_windows_that_a_later_step_drops(rows):
    midway = rows.withColumn("__watermark", f.lit(1)).where("__watermark = 1").withColumn("m", f.expr("__watermark"))
    windows = tidegate.windowed(midway.drop("__watermark"), "split", "timestamp").window(FIVE)
    assert windows.explain().startswith("Spark's own")
    assert windows.aggregate(n="sum(m)").columns == ["split", "window_start", "window_end", "n"]


def test_columns_may_differ_in_case_where_spark_keeps_them_apart(spark, rows):
    spark.conf.set("spark.sql.caseSensitive", "TRUE")
    try:
        twins = rows.withColumn("Split", f.lit(1))
        late = tidegate.windowed(twins, ["split", "Split"], "timestamp").window(FIVE).side_output_late("late")
        results = late.aggregate(N="count(*)", n="sum(Split)").columns
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert results == ["split", "Split", "window_start", "window_end", "N", "n", "output", "late_row"]


def test_results_of_windows_may_be_united_and_joined_by_their_window(spark, source, windows):
    counts = windows.aggregate(n="count(*)")
    others = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(FIVE)
    sums = others.side_output_late("late").aggregate(n="sum(position)")
    window = ["split", "window_start", "window_end"]
    check_can_stream(counts.union(sums.drop("output", "late_row")))
    for how in ("inner", "left", "full_outer"):
        check_can_stream(counts.join(sums, window, how))


@pytest.mark.parametrize(
    "kept",
    [lambda w: w.allowed_lateness(timedelta(seconds=1)), lambda w: w.trigger(TIMED_OUT)],
    ids=["late results", "in processing time"],
)
def test_results_that_may_be_late_or_that_spark_gives_no_watermark_are_joined_by_no_outer_join(
    spark, source, windows, kept
):
    others = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(FIVE)
    one, other = (kept(w).aggregate(n="count(*)") for w in (windows, others))
    window = ["split", "window_start", "window_end"]
    check_can_stream(one.join(other, window))
    with pytest.raises(
        AnalysisException, match=r"LeftOuter join .* is not supported without a watermark in the join keys"
    ):
        check_can_stream(one.join(other, window, "left"))


def test_a_key_of_windows_over_windows_is_no_event_time_for_spark_though_it_is_the_end_of_windows(windows):
    counts = windows.aggregate(n="count(*)").selectExpr("window_end AS until", "window_end AS at", "n")
    over = tidegate.windowed(counts, "until", "at").window(FIVE).side_output_late("late").aggregate(n="sum(n)")
    assert [column.name for column in over.schema if column.metadata] == ["window_end"]


def test_a_key_may_be_null_since_rows_that_are_no_results_have_none(rows):
    constant = tidegate.windowed(rows.withColumn("k", f.lit("a")), "k", "timestamp").window(FIVE)
    assert constant.process(Keeps(), schema="n bigint").schema["k"].nullable


OVER = {
    "event time": (lambda w: w.window(FIVE).side_output_late("late").aggregate(n="sum(n)"), 1),
    "counts": (lambda w: w.window(GlobalWindows.create()).trigger(COUNTED).aggregate(n="sum(n)"), None),
    "processing time": (lambda w: w.window(SESSIONS_OF_THE_CLOCK).aggregate(n="sum(n)"), None),
    "function": (lambda w: w.window(GlobalWindows.create()).trigger(COUNTED).process(Keeps(), "n bigint"), 1),
    "timers": (lambda w: w.window(GlobalWindows.create()).trigger(ENDLESS).aggregate(n="sum(n)"), 1),
}


@pytest.mark.parametrize("kind", OVER)
def test_windows_over_windows_keep_the_watermark_in_their_state_only_if_it_matters(windows, monkeypatch, kind):
    given, made = [], operating.ProcessorSettings
    monkeypatch.setattr(operating, "ProcessorSettings", lambda **fields: given.append(fields) or made(**fields))
    over, ahead_ms = OVER[kind]
    over(tidegate.windowed(windows.aggregate(n="count(*)"), "split", "window_end"))
    assert [fields["ahead_ms"] for fields in given] == [ahead_ms]


def test_columns_of_the_user_may_be_called_as_those_of_other_steps_and_have_dots(spark):
    rows = spark.createDataFrame([(1, "a", 2, 3)], "bucket int, task string, number int, `rows.n` int")
    of_buckets = buckets.packed(rows, ["bucket"], 4).where(f"{buckets.BUCKET} >= 0").collect()
    unpacked = buckets.unpacked([bytes(row[buckets.ROWS]) for row in of_buckets], rows.schema)
    assert unpacked.to_pylist() == [{"bucket": 1, "task": "a", "number": 2, "rows.n": 3}]


def test_the_description_of_the_operator_has_the_types_of_its_aggregates(windows, monkeypatch):
    given, made = [], operating.ProcessorSettings
    monkeypatch.setattr(operating, "ProcessorSettings", lambda **fields: given.append(fields) or made(**fields))
    windows.side_output_late("late").aggregate(n="count(*)", last="max(timestamp)", mean="avg(position)")
    assert given[0]["description"]["types of the aggregates"] == "bigint, timestamp, double, bigint"
