"""Which way windows go, and what tasks of the source do with their rows before Spark gets any."""

from datetime import timedelta

import pytest
from pyspark.sql import functions as f

import tidegate
from tidegate.errors import OptionError
from tidegate.windows import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tidegate.windows.spark import relations

FIVE = TumblingEventTimeWindows.of(timedelta(seconds=5))
SESSIONS = EventTimeSessionWindows.with_gap(timedelta(seconds=1))
COUNTED = PurgingTrigger.of(CountTrigger.of(2))


def test_a_source_gives_spark_only_the_columns_that_windows_need(rows, windows):
    def read(stream):
        optimizer = stream.sparkSession._jsparkSession.sessionState().optimizer()
        plan = optimizer.execute(stream._jdf.queryExecution().analyzed())
        while not plan.children().isEmpty():
            plan = plan.children().head()
        return [plan.output().apply(place).name() for place in range(plan.output().size())]

    assert read(windows.aggregate(n="count(*)")) == ["split", "__time", "__records", "__watermark"]
    sums = ["split", "__time", "__records", "__aggregate_0", "__watermark"]
    assert read(windows.aggregate(n="sum(position)")) == sums
    packed = ["__bucket", "__task", "__number", "__rows", "__records", "__watermark"]
    assert read(windows.allowed_lateness(timedelta(1)).aggregate(n="count(*)")) == packed
    assert read(windows.reduce(max)) == packed
    whole = ["split", "position", "timestamp", "__watermark"]
    assert read(windows.aggregate(n="count_if(position > 1)")) == whole
    assert read(windows.aggregate(n="count_if(split > 'a')")) == [whole[0], *whole[2:]]
    over = rows.withColumn("split", f.lit("a")).where("position > 1")
    assert read(tidegate.windowed(over, "split", "timestamp").window(FIVE).aggregate(n="count(*)")) == whole[1:]


WAYS = {
    "Spark's own window aggregation": lambda w: w,
    "Spark's own window aggregation, for": lambda w: w.window(
        SlidingEventTimeWindows.of(timedelta(seconds=7), timedelta(seconds=3))
    ),
    "because Spark drops late rows, and has no side output": lambda w: w.side_output_late("late"),
    "because Spark has no allowed lateness": lambda w: w.allowed_lateness(timedelta(seconds=1)),
    "because Spark drops a late row that an open session would still take": lambda w: w.window(SESSIONS),
}


@pytest.mark.parametrize("way", WAYS)
def test_explain_tells_which_way_windows_go_and_why(windows, way):
    assert way in WAYS[way](windows).explain()


def test_a_stream_with_a_watermark_or_a_step_that_hides_columns_goes_to_the_operator(rows):
    own = tidegate.windowed(rows.withWatermark("timestamp", "10 seconds"), "split", "timestamp").window(FIVE)
    assert own.explain().endswith("the watermark is that of the stream's own withWatermark")
    hidden = tidegate.windowed(rows.mapInPandas(lambda batches: batches, rows.schema), "split", "timestamp")
    assert hidden.window(FIVE).explain().endswith("does not let the source's watermark through")
    counts = tidegate.windowed(rows, "split", "timestamp").window(FIVE).aggregate(n="count(*)")
    over = tidegate.windowed(counts, "split", "window_end").window(FIVE)
    assert over.explain().endswith("because the stream holds results of a stateful step, such as other windows")


@pytest.mark.parametrize("asked", ["none", "column"])
def test_a_stream_that_tells_its_watermark_has_the_columns_that_the_user_asked_for(spark, source, asked):
    rows = source.model_copy(update={"source_watermark": asked}).read_stream(spark)
    expected = ["split", "position", "timestamp", *["source_watermark"] * (asked == "column")]
    assert relations.with_watermark(rows, 0, used=None).columns == rows.columns == expected
    carried = relations.with_watermark(rows.select("position"), 1, used=None, description={})
    assert carried.columns == ["position", "__watermark"]
    windows = tidegate.windowed(rows, "split", "timestamp").window(FIVE)
    assert windows.aggregate(n="count(*)").columns == ["split", "window_start", "window_end", "n"]
    late = windows.side_output_late("late").aggregate(n="count(*)")
    assert late.schema["late_row"].dataType.names == expected


IN_SOURCE = {
    "sum up": [
        lambda w, r: w.explain(n="count(*)", total="1 + sum(position) / count(position)", last="max(timestamp)"),
        lambda w, r: w.allowed_lateness(timedelta(seconds=1)).explain(mean="avg(position)"),
        lambda w, r: w.window(SlidingEventTimeWindows.of(timedelta(seconds=7), timedelta(seconds=3))).explain(
            n="count(*)"
        ),
        lambda w, r: of_steps(r.selectExpr("position AS p", "CAST(split AS STRING) AS k", "timestamp")),
        lambda w, r: of_steps(
            r.select(f.struct("*").alias("row")).selectExpr("row.split k", "row.timestamp", "row.position p")
        ),
    ],
    "pack the rows": [
        lambda w, r: w.side_output_late("late").explain(n="count(*)"),
        lambda w, r: w.window(SESSIONS).explain(n="count(*)"),
        lambda w, r: w.trigger(COUNTED).explain(n="count(*)"),
        lambda w, r: w.trigger(ContinuousEventTimeTrigger.of(timedelta(seconds=1))).explain(n="sum(position)"),
    ],
    "hands over each row": [
        lambda w, r: w.explain(n="count_if(position > 3)"),
        lambda w, r: w.explain(n="sum(CAST(position AS DECIMAL(8, 2)))"),
        lambda w, r: w.explain(n="stddev(position)"),
        lambda w, r: w.explain(n="sum(split)"),  # Spark reads numbers in texts as Arrow does not
        lambda w, r: of_steps(r.where("position > 3").selectExpr("split AS k", "timestamp", "position AS p")),
        lambda w, r: of_steps(r.union(r.limit(0)).selectExpr("split AS k", "timestamp", "position AS p")),
        lambda w, r: of_steps(r.selectExpr("upper(split) AS k", "timestamp", "position AS p")),
        lambda w, r: of_steps(
            r.selectExpr("split AS k", "timestamp + INTERVAL 1 SECOND AS timestamp", "position AS p")
        ),
    ],
}


def of_steps(rows):
    return tidegate.windowed(rows, "k", "timestamp").window(FIVE).explain(n="sum(p)")


@pytest.mark.parametrize("way", IN_SOURCE)
def test_explain_tells_what_tasks_of_the_source_do_with_rows(rows, windows, way):
    reported = [explained(windows, rows).partition(";")[2] for explained in IN_SOURCE[way]]
    assert [way in text for text in reported] == [True] * len(reported)


def test_explain_refuses_an_expression_that_spark_would_refuse(windows):
    with pytest.raises(OptionError, match="Spark cannot take n='sum"):
        windows.explain(n="sum(positoin)")


def test_a_column_is_that_of_the_source_in_upper_and_lower_case(rows):
    assert relations.source_paths(rows.selectExpr("POSITION AS p", "Split")) == [("position",), ("split",)]


def test_fields_of_typed_values_are_columns_of_the_source(spark):
    typed = tidegate.KafkaSource(
        bootstrap_servers="localhost:9",
        subscribe=["orders"],
        value_format="json",
        value_schema="shop string, cents int",
    )
    rows = typed.read_stream(spark).selectExpr("value.shop AS k", "timestamp", "CAST(value.cents AS DOUBLE) AS p")
    paths = relations.source_paths(rows)
    assert paths == [("value", "shop"), ("timestamp",), ("value", "cents")]
    assert "sum up" in of_steps(rows)


@pytest.mark.parametrize("policy", ["max", "MAX"])
def test_rows_are_not_summed_up_where_spark_may_follow_the_watermark_of_a_source_further_ahead(spark, windows, policy):
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
    try:
        assert windows.explain(n="count(*)").endswith("Spark hands over each row of the source")
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")
