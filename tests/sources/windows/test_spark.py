"""Windows on real Spark give what the pure operator gives for the same batches."""

import re
from datetime import timedelta

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource, append
from tests.support.streams import available_now, running
from tests.support.waiting import await_that
from tidegate import OptionError, WatermarkStrategy
from tidegate.sources.bridge import END_OF_TIME_MS
from tidegate.sources.windows import operating, packing
from tidegate.sources.windows.expressions import parts_of
from tidegate.windows import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tidegate.windows.testing import WindowHarness
from tidegate.windows.window import MAX_TIME, MIN_TIME

NOON = 1_700_049_600_000
SECOND = 1_000
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def seconds(count):
    return timedelta(seconds=count)


@pytest.fixture(autouse=True)
def provider(spark):
    """Leave the session as it was."""
    before = spark.conf.get(PROVIDER)
    yield
    spark.conf.set(PROVIDER, before)


@pytest.fixture
def source(tmp_path):
    """Two splits out of order by up to 10 s, in batches of 20 rows; some rows come much later than that."""
    path = str(tmp_path / "splits.json")
    times = {
        name: [NOON + (second * 7 % 10 + second // 10 * 10) * SECOND for second in range(shift, 120 + shift)]
        for name, shift in {"a": 0, "b": 3}.items()
    }
    for place, behind in {60: 15, 70: 40, 90: 25, 91: 26, 115: 90}.items():
        times["a"][place] -= behind * SECOND
    append(path, **times)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(seconds(10))
    return MemorySource(path=path, watermarks=strategy, max_rows_per_trigger=20)


def of_harness(harness, spark, source, tmp_path):
    """Hand the batches of the source to the pure operator, and return what fired and what was late."""
    rows = source.telling_watermarks(previous=True).read_stream(spark)
    told = rows.selectExpr(
        "split", "position", "unix_millis(timestamp) time",
        "unix_millis(source_watermark) after", "unix_millis(previous_source_watermark) before",
    )  # fmt: skip
    run = available_now(told, tmp_path / "oracle")
    last = None
    for batch in run.rows.values():
        harness.watermark(watermark(batch[0]["before"]))
        last = batch[0]["after"]
        for row in sorted(batch, key=lambda row: (row["split"] or "", row["position"] or 0)):
            if row["time"] is not None:
                harness.element(row["split"], {"position": row["position"]}, row["time"])
    harness.watermark(watermark(last))
    panes = [(p.key, p.start_ms, p.end_ms, sorted(row["position"] for row in p.rows)) for p in harness.panes]
    return sorted(panes, key=str), sorted(row["position"] for row in harness.late)


def watermark(time_ms):
    if time_ms is None:
        return MIN_TIME
    return MAX_TIME if time_ms == END_OF_TIME_MS else time_ms


class Positions(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [{"positions": sorted(row["position"] for row in elements)}]


WINDOWS = {
    "tumbling": (TumblingEventTimeWindows.of(seconds(5)), None, 30),
    "sliding": (SlidingEventTimeWindows.of(seconds(7), seconds(3)), None, 0),
    "sessions": (EventTimeSessionWindows.with_gap(seconds(1)), None, 20),
    "continuous": (TumblingEventTimeWindows.of(timedelta(days=1)), ContinuousEventTimeTrigger.of(seconds(30)), 0),
    "counted": (GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(7)), 0),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_fire_with_the_rows_of_the_pure_operator(spark, source, tmp_path, name):
    assigner, trigger, lateness = WINDOWS[name]
    expected, late = of_harness(WindowHarness(assigner, trigger, None, seconds(lateness)), spark, source, tmp_path)
    assert expected
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(assigner)
    if trigger is not None:
        windows = windows.trigger(trigger)
    out = (
        windows.allowed_lateness(seconds(lateness))
        .side_output_late("late")
        .process(Positions(), "positions array<bigint>")
    )
    results, rows = [], []

    def keep(batch, _):
        main, too_late = tidegate.split_outputs(batch, "late")
        results.extend(in_ms(main).collect())
        rows.extend(too_late.collect())

    query = out.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(((r.split, r.start, r.end, sorted(r.positions)) for r in results), key=str) == expected
    assert sorted(row.position for row in rows) == late
    assert bool(late) == (name in {"tumbling", "sliding", "sessions"})
    assert {*rows[0].asDict()} == {"split", "position", "timestamp"} if rows else True


def in_ms(windows):
    times = [f.unix_millis(f"window_{name}").alias(name) for name in ("start", "end")]
    return windows.select("*", *times)


AGGREGATES = {"rows": "count(*)", "total": "sum(position)", "mean": "round(sum(position * 2) / count(position), 3)"}
AGGREGATES |= {"least": "min(position)", "last": "max(timestamp)", "even": "count(*) FILTER (WHERE position % 2 = 0)"}
AGGREGATES |= {"price": "avg(CAST(position * 0.37 AS DECIMAL(8, 2)))", "odd": "count_if(position % 2 = 1)"}


def shown(run):
    return sorted(tuple(row.values()) for row in run.all_rows)


def test_spark_s_own_aggregation_and_the_operator_give_the_same_and_drop_the_same(spark, source, tmp_path):
    assigner = TumblingEventTimeWindows.of(seconds(5), seconds(2))
    expected, late = of_harness(WindowHarness(assigner), spark, source, tmp_path)
    assert late
    steps = (
        source.read_stream(spark).where("position >= 0").select(f.upper("split").alias("name"), "position", "timestamp")
    )
    native = tidegate.windowed(steps, "name", "timestamp").window(assigner)
    assert native.explain().startswith("Spark's own window aggregation")
    operator = native.side_output_late("late")
    assert operator.explain().endswith("because Spark drops late rows, and has no side output")
    by_spark = shown(available_now(native.aggregate(**AGGREGATES), tmp_path / "native"))
    kept = operator.aggregate(**AGGREGATES).where("output = 'results'").drop("output", "late_row")
    assert shown(available_now(kept, tmp_path / "operator")) == by_spark
    assert sorted(row[3] for row in by_spark) == sorted(len(positions) for *_, positions in expected)


def test_sliding_windows_of_spark_are_those_of_flink_also_where_the_slide_does_not_divide_the_size(
    spark, source, tmp_path
):
    assigner = SlidingEventTimeWindows.of(seconds(7), seconds(3), seconds(-1))
    expected, _ = of_harness(WindowHarness(assigner), spark, source, tmp_path)
    native = tidegate.windowed(source.read_stream(spark), ["split"], "timestamp").window(assigner)
    assert native.explain().startswith("Spark's own window aggregation")
    run = available_now(in_ms(native.aggregate(total="sum(position)")), tmp_path / "native")
    found = [(row["split"], row["start"], row["end"], row["total"]) for row in run.all_rows]
    assert sorted(found, key=str) == sorted(((*window, sum(rows)) for *window, rows in expected), key=str)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value["position"], accumulator[1] + 1

    def get_result(self, accumulator):
        return {"mean": accumulator[0] / accumulator[1]}

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_python_functions_aggregate_and_reduce(spark, source, tmp_path):
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(
        EventTimeSessionWindows.with_gap(seconds(1))
    )
    by_sql = shown(available_now(windows.aggregate(mean="avg(position)"), tmp_path / "sql"))
    assert by_sql
    assert shown(available_now(windows.aggregate(Mean(), schema="mean double"), tmp_path / "python")) == by_sql
    latest = windows.reduce(lambda one, other: max(one, other, key=lambda row: row["position"]))
    assert latest.columns == ["split", "window_start", "window_end", "position", "timestamp"]
    greatest = shown(available_now(windows.aggregate(position="max(position)"), tmp_path / "greatest"))
    run = available_now(latest.drop("timestamp"), tmp_path / "reduced")
    assert shown(run) == greatest


def test_a_trigger_that_compares_rows_sees_their_columns_beside_sql_aggregates(spark, source, tmp_path):
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(GlobalWindows.create())
    moved = DeltaTrigger.of(49, lambda last, row: abs(row["position"] - last["position"]))
    run = available_now(windows.trigger(PurgingTrigger.of(moved)).aggregate(rows="count(*)"), tmp_path / "checkpoint")
    assert {row["rows"] for row in run.all_rows} <= {50, 51}
    assert {row["split"] for row in run.all_rows} == {"a", "b"}


def test_windows_shuffle_only_the_columns_that_their_parts_read(spark, source, monkeypatch):
    seen = []
    packed = operating.packed
    monkeypatch.setattr(operating, "packed", lambda rows, *rest: seen.append(rows.columns) or packed(rows, *rest))
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp")
    windows = windows.window(EventTimeSessionWindows.with_gap(seconds(1)))
    windows.aggregate(rows="count(*)")
    windows.evictor(DeltaEvictor.of(1, lambda row, last: 0)).aggregate(rows="count(*)")
    assert seen == [["__key_0", "__time"], ["__key_0", "__time", "split", "position", "timestamp"]]


def test_columns_of_the_user_may_be_called_as_those_of_other_steps(spark):
    rows = spark.createDataFrame([(1, "a", 2, 3)], "bucket int, task string, number int, rows int")
    found = packing.packed(rows, [f.col("bucket")], 4).collect()
    unpacked = packing.unpacked([bytes(row[packing.ROWS]) for row in found], rows.schema)
    assert unpacked.to_pylist() == [{"bucket": 1, "task": "a", "number": 2, "rows": 3}]


@pytest.mark.parametrize(
    ("text", "argument"),
    [("count(*)", "*"), ("count(7)", "*"), ("count(NULL)", "NULL"), ("sum(1)", "1")],
)
def test_only_what_counts_rows_has_no_argument(spark, text, argument):
    parts = parts_of(spark.range(3).toDF("id"), {"n": text})
    (aggregate,) = parts.aggregates.values()
    column = aggregate.partition("(")[2][:-1]
    assert parts.arguments.get(column, column) == argument


def test_rows_that_only_tell_the_watermark_close_windows_and_open_none(spark, source, tmp_path):
    windows = tidegate.windowed(source.read_stream(spark).where("split = 'a'"), "split", "timestamp").window(
        TumblingEventTimeWindows.of(seconds(5))
    )
    run = available_now(windows.side_output_late("late").aggregate(rows="count(*)"), tmp_path / "checkpoint")
    assert {row["split"] for row in run.all_rows} == {"a"}


def test_a_stream_with_a_watermark_of_its_own_keeps_it_and_loses_no_late_row(spark, source, tmp_path):
    own = source.read_stream(spark).withWatermark("timestamp", "10 seconds")
    windows = tidegate.windowed(own, "split", "timestamp").window(TumblingEventTimeWindows.of(seconds(5)))
    assert windows.explain().endswith("the watermark is that of the stream's own withWatermark")
    run = available_now(windows.side_output_late("late").aggregate(rows="count(*)"), tmp_path / "checkpoint")
    late = [row["late_row"] for row in run.all_rows if row["output"] == "late"]
    assert {60, 70} & {row["position"] for row in late}
    assert all(row["split"] for row in late)


class Broken(ProcessWindowFunction):
    def process(self, key, context, elements):
        raise ZeroDivisionError("no good")


def test_a_function_that_raises_is_told_in_one_sentence_with_its_key_and_window(spark, source, tmp_path):
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(
        TumblingEventTimeWindows.of(seconds(5))
    )
    broken = windows.process(Broken(), "n bigint").writeStream.format("noop")
    query = broken.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    told = str(raised.value)
    assert re.search("raised ZeroDivisionError: no good .for key '[ab]' and window .17000[0-9]+, 17000[0-9]+. ms", told)
    assert "Traceback" not in told


def test_a_time_out_in_processing_time_fires_without_data_and_the_watermark_fires_beside_it(spark, source):
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(
        TumblingEventTimeWindows.of(seconds(60))
    )
    timed_out = windows.trigger(ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), seconds(1)))
    fired = []
    writer = in_ms(timed_out.aggregate(rows="count(*)")).writeStream.foreachBatch(
        lambda batch, _: fired.extend(batch.collect())
    )
    last = NOON + 120 * SECOND  # which no watermark closes
    with running(writer.trigger(processingTime="500 milliseconds").start()) as query:
        await_that(lambda: any(row.start == last for row in fired) or query.exception(), 180)
        assert query.exception() is None
    assert {row.start for row in fired} == {NOON, NOON + 60 * SECOND, last}


def test_windows_that_rows_alone_make_fire_need_no_time(spark, source, tmp_path):
    counted = tidegate.windowed(source.read_stream(spark), "split").window(GlobalWindows.create())
    by_seven = counted.trigger(PurgingTrigger.of(CountTrigger.of(7))).aggregate(rows="count(*)")
    run = available_now(by_seven, tmp_path / "checkpoint")
    assert sorted((row["split"], row["rows"]) for row in run.all_rows) == [("a", 7)] * 17 + [("b", 7)] * 17
    assert {row["window_end"] for row in run.all_rows} == {None}


def wrong(spark, source):
    rows = source.read_stream(spark)
    tumbling = TumblingEventTimeWindows.of(seconds(5))
    return {
        "the stream has no column 'splits'; did you mean 'split'": lambda: tidegate.windowed(
            rows, "splits", "timestamp"
        ),
        "the key 'output' has the name of a column of the results": lambda: tidegate.windowed(
            rows.withColumnRenamed("split", "output"), "output", "timestamp"
        ),
        "the event time 'position' is bigint, but must be timestamp.*timestamp_millis": lambda: tidegate.windowed(
            rows, "split", "position"
        ),
        "the event time 'local' is timestamp_ntz": lambda: tidegate.windowed(
            rows.withColumn("local", f.col("timestamp").cast("timestamp_ntz")), "split", "local"
        ),
        "EndOfStreamTrigger goes by event time: name it": lambda: (
            tidegate.windowed(rows, "split")
            .window(GlobalWindows.create_with_end_of_stream_trigger())
            .aggregate(n="count(*)")
        ),
        "evictor\\(\\) takes an evictor": lambda: tidegate.windowed(rows, "split").evictor(3),
        "takes a ProcessWindowFunction": lambda: tidegate.windowed(rows, "split").process(lambda *_: [], "n bigint"),
        "takes an AggregateFunction": lambda: tidegate.windowed(rows, "split").aggregate(lambda *_: 1, schema="n int"),
        "must be the text of an expression": lambda: tidegate.windowed(rows, "split").aggregate(n=f.count("*")),
        "windows need a key": lambda: tidegate.windowed(rows, []),
        "name it, as windowed": lambda: tidegate.windowed(rows, "split").window(tumbling),
        "call window\\(\\) first": lambda: tidegate.windowed(rows, "split").aggregate(n="count(*)"),
        "needs schema=": lambda: tidegate.windowed(rows, "split", "timestamp").window(tumbling).aggregate(Mean()),
        "takes an aggregate function, or": lambda: (
            tidegate.windowed(rows, "split", "timestamp").window(tumbling).aggregate()
        ),
        "has the name of another column": lambda: (
            tidegate.windowed(rows, "split", "timestamp").window(tumbling).aggregate(split="count(*)")
        ),
        "uses stddev, which Spark keeps": lambda: (
            tidegate.windowed(rows, "split", "timestamp")
            .window(tumbling)
            .side_output_late("late")
            .aggregate(n="stddev(position) + 1")
        ),
        "use readStream": lambda: tidegate.windowed(spark.range(3), "id"),
        "the source 'rate-micro-batch' tells none": lambda: (
            tidegate.windowed(
                spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load(), "value", "timestamp"
            )
            .window(tumbling)
            .aggregate(n="count(*)")
        ),
        "the source has no watermarks": lambda: (
            tidegate.windowed(
                source.model_copy(update={"watermarks": WatermarkStrategy.no_watermarks()}).read_stream(spark),
                "split",
                "timestamp",
            )
            .window(tumbling)
            .aggregate(n="count(*)")
        ),
    }


def test_each_mistake_is_told_at_once_in_one_sentence(spark, source):
    for sentence, mistake in wrong(spark, source).items():
        with pytest.raises(Exception, match=sentence) as raised:
            mistake()
        assert isinstance(raised.value, OptionError) or "no watermarks" in sentence
