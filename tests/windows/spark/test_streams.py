"""Windows over streams that are slow, late, idle or wrong."""

import itertools
import json
import os
import re
from collections import Counter
from datetime import timedelta
from functools import reduce

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource, append
from tests.support.command import await_that
from tests.support.streams import NOON, available_now, running
from tidegate import WatermarkStrategy
from tidegate.sources.session import register_source
from tidegate.sources.tasks import END_OF_TIME_MS
from tidegate.windows import (
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

SECOND = 1_000
PARTITIONS = "spark.sql.shuffle.partitions"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=10))


def tumbling(count):
    return TumblingEventTimeWindows.of(timedelta(seconds=count))


def every_ten_seconds(count):
    return [NOON + number * 10 * SECOND for number in range(count)]


@pytest.fixture
def source(tmp_path):
    path = str(tmp_path / "splits.json")
    append(path, a=every_ten_seconds(13), b=every_ten_seconds(13))
    return MemorySource(path=path, watermarks=STRATEGY)


def kept(windows, fired):
    starts = windows.withColumn("start", f.unix_millis("window_start"))
    return starts.writeStream.foreachBatch(lambda batch, _: fired.extend(batch.collect()))


def test_a_stream_that_is_not_of_tidegate_keeps_its_own_watermark_and_loses_no_late_row(spark, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for number, times in enumerate([every_ten_seconds(13), [NOON]]):
        rows = "".join(json.dumps({"key": "a", "at": time}) + "\n" for time in times)
        path = folder / f"{number}.json"
        path.write_text(rows)
        os.utime(path, (number, number))  # Spark reads the older file first
    files = spark.readStream.schema("key string, at long").option("maxFilesPerTrigger", 1).json(str(folder))
    own = files.withColumn("timestamp", f.timestamp_millis("at")).withWatermark("timestamp", "10 seconds")
    windows = tidegate.windowed(own, "key", "timestamp").window(tumbling(60))
    assert windows.explain().endswith("because the watermark is that of the stream's own withWatermark")
    run = available_now(windows.side_output_late("late").aggregate(rows="count(*)"), tmp_path / "checkpoint")
    results = [row for row in run.all_rows if row["output"] == "results"]
    assert [(row["window_start"].timestamp() * SECOND, row["rows"]) for row in results] == [(NOON, 6)]
    assert [row["late_row"]["at"] for row in run.all_rows if row["output"] == "late"] == [NOON]


def test_a_restart_has_the_buckets_of_its_checkpoint_with_other_partitions_and_another_kind_of_state_files(
    spark, tmp_path
):
    splits = [f"split {number}" for number in range(12)]
    source = MemorySource(path=str(tmp_path / "splits.json"), watermarks=STRATEGY)

    def run(partitions, times, *, changes):
        before = spark.conf.get(PARTITIONS)
        spark.conf.set(PARTITIONS, partitions)
        if not changes:
            spark.conf.set(CHANGELOG, "false")
        append(source.path, **dict.fromkeys(splits, times))
        windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(tumbling(60))
        try:
            found = available_now(
                windows.allowed_lateness(timedelta(seconds=1)).aggregate(n="count(*)"), tmp_path / "c"
            )
        finally:
            spark.conf.set(PARTITIONS, before)
            spark.conf.unset(CHANGELOG)
        assert any((tmp_path / "c").rglob("*.changelog")) == changes
        return sorted((row["window_end"].timestamp() * SECOND, row["n"]) for row in found.all_rows)

    assert run(3, every_ten_seconds(13), changes=False) == [(NOON + 60 * SECOND, 6)] * 12
    later = [NOON + 115 * SECOND, NOON + 140 * SECOND]
    assert run(5, later, changes=True) == [(NOON + 120 * SECOND, 7)] * 12


def test_named_sources_keep_their_names_and_go_on_in_another_order(evolving, tmp_path):
    """Windows over two of them are Spark's own aggregation, and those over the third are of the operator."""
    names = ("left", "right", "third")
    sources = {name: MemorySource(path=str(tmp_path / name), watermarks=STRATEGY) for name in names}
    formats = {name: register_source(evolving, source) for name, source in sources.items()}

    def run(names, times):
        append(sources["left"].path, a=times)
        append(sources["right"].path, b=times[::2])
        append(sources["third"].path, c=times[2::3])
        *rows, third = (evolving.readStream.format(formats[name]).name(name).load() for name in (*names, "third"))
        both, of_third = (
            tidegate.windowed(of, "split", "timestamp").window(tumbling(60))
            for of in (rows[0].unionByName(rows[1]), third)
        )
        late = of_third.side_output_late("late").aggregate(n="count(*)").drop("output", "late_row")
        found = available_now(both.aggregate(n="count(*)").unionByName(late), tmp_path / "checkpoint")
        return sorted((row["split"], row["window_end"].timestamp() * SECOND, row["n"]) for row in found.all_rows)

    first, second = NOON + 60 * SECOND, NOON + 120 * SECOND
    assert run(["left", "right"], every_ten_seconds(9)) == [("a", first, 6), ("b", first, 3), ("c", first, 2)]
    more = [NOON + number * 10 * SECOND for number in range(9, 18)]
    assert run(["right", "left"], more) == [("a", second, 6), ("b", second, 4), ("c", second, 2)]


def test_a_state_that_spark_has_repartitioned_goes_on_for_its_own_aggregation_and_for_windows_with_buckets(
    spark, source, tmp_path
):
    def run():
        rows = source.read_stream(spark)
        windows = tidegate.windowed(rows, "split", "timestamp").window(tumbling(60))
        kept = windows.side_output_late("late").buckets(8).aggregate(n="count(*)").drop("output", "late_row")
        found = available_now(windows.aggregate(n="count(*)").unionByName(kept), tmp_path / "checkpoint")
        return [(row["window_end"].timestamp() * SECOND, row["n"]) for row in found.all_rows]

    spark.conf.set(STATE_FORMAT, "2")
    try:
        assert run() == [(NOON + 60 * SECOND, 6)] * 4
        spark._streamingCheckpointManager.repartition(str(tmp_path / "checkpoint"), 3)
        append(source.path, a=[NOON + 140 * SECOND], b=[NOON + 140 * SECOND])
        assert run() == [(NOON + 120 * SECOND, 6)] * 4
    finally:
        spark.conf.unset(STATE_FORMAT)


def test_objects_keep_the_columns_that_the_user_gave_them(spark, bucket, tmp_path):
    bucket.put_rows("a.json", [(number, NOON + number * 10 * SECOND) for number in range(13)])
    options = {"path": bucket.path, "fileFormat": "json", "accessKey": bucket.server.access_key}
    options |= {"secretKey": bucket.server.secret_key, "endpoint": bucket.server.endpoint, "region": "us-east-1"}
    options |= {"stateLocation": str(tmp_path / "state"), "eventTime": "column:at", "eventTimeUnit": "ms"}
    # Without the user's columns the ids would be numbers.
    given = spark.readStream.format("tidegate_s3").schema("id string, at long").options(**options).load()
    rows = given.selectExpr("substr(id, 1, 1) AS digit", "id", "timestamp_millis(at) AS at")
    windows = tidegate.windowed(rows, "digit", "at").window(tumbling(60))
    run = available_now(windows.aggregate(greatest="max(id)", rows="count(*)"), tmp_path / "checkpoint")
    assert {row["digit"]: (row["greatest"], row["rows"]) for row in run.all_rows}["0"] == ("0", 1)
    assert all(isinstance(row["greatest"], str) for row in run.all_rows)


def test_windows_over_windows_close_after_the_results_that_they_hold(spark, source, tmp_path):
    """The first windows are Spark's own, and the second ones are those of the operator."""
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    rows = source.model_copy(update={"watermarks": in_order, "max_rows_per_trigger": 8}).read_stream(spark)

    def over_counts(key, seconds):
        first = tidegate.windowed(rows, "split", "timestamp").window(tumbling(20)).aggregate(rows="count(*)")
        counts = first.selectExpr("rows", "split", "window_end AS until", "window_end - INTERVAL 1 MILLISECOND AS at")
        second = tidegate.windowed(counts, key, "at").window(tumbling(seconds)).side_output_late("late")
        sums = second.aggregate(results="count(*)", rows="sum(rows)")
        return sums.selectExpr(f"'{key}' AS key", "unix_millis(window_end) AS end", "results", "rows", "output")

    run = available_now(over_counts("until", 20).unionByName(over_counts("split", 60)), tmp_path / "checkpoint")
    assert len(run.rows) > 1
    assert {row["output"] for row in run.all_rows} == {"results"}
    found = sorted((row["key"], (row["end"] - NOON) // SECOND, row["results"], row["rows"]) for row in run.all_rows)
    of_splits = [("split", end, 3, 6) for end in (60, 60, 120, 120)]
    assert found == [*of_splits, *(("until", end, 2, 4) for end in (20, 40, 60, 80, 100, 120))]


def test_results_are_joined_by_window_and_the_join_keeps_none_of_them(spark, source, tmp_path):
    """One side is Spark's own aggregation, and the other one is of the operator."""
    append(source.path, a=[NOON + 130 * SECOND], b=[NOON + 130 * SECOND])  # a join forgets a millisecond later
    rows = source.model_copy(update={"watermarks": WatermarkStrategy.for_monotonous_timestamps()}).read_stream(spark)

    def windows(condition):
        return tidegate.windowed(rows.where(condition), "split", "timestamp").window(tumbling(20))

    first_of_b = windows(f"split = 'b' AND timestamp < timestamp_millis({NOON + 60_000})").side_output_late("late")
    of_a, of_b = windows("split = 'a'").aggregate(a="count(*)"), first_of_b.aggregate(b="count(*)")
    joined = of_a.select("window_end", "a").join(of_b.select("window_end", "b"), "window_end", "full_outer")
    joined = joined.withColumn("end", f.unix_millis("window_end"))
    run = available_now(joined, tmp_path / "checkpoint")
    found = sorted(((row["end"] - NOON) // SECOND, row["a"], row["b"]) for row in run.all_rows)
    assert found == [(20, 2, 2), (40, 2, 2), (60, 2, 2), (80, 2, None), (100, 2, None), (120, 2, None)]
    states = {state.operatorName: state.numRowsTotal for state in run.query.lastProgress.stateOperators}
    assert states["symmetricHashJoin"] == 0


class Broken(ProcessWindowFunction):
    def process(self, key, context, elements):
        raise ZeroDivisionError("no good")


def test_a_window_that_has_no_result_is_told_in_one_sentence_with_its_key_and_window(spark, source, tmp_path):
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(tumbling(60))
    broken = windows.process(Broken(), "n bigint").writeStream.format("noop")
    query = broken.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    reported = str(raised.value)
    why = r"raised ZeroDivisionError: no good .for key '[ab]' and window .17000[0-9]+, 17000[0-9]+. ms"
    assert re.search(why, reported)
    assert "Traceback" not in reported


A_SECOND = timedelta(seconds=1)
EACH_SECOND = PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(A_SECOND))
# The windows of a minute are also fired by the watermark, except for the last ones, which it never passes.
BY_CLOCK = {
    "all times": (GlobalWindows.create(), EACH_SECOND),
    "a time-out beside the watermark": (
        tumbling(60),
        PurgingTrigger.of(ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), A_SECOND)),
    ),
    "the clock": (TumblingProcessingTimeWindows.of(A_SECOND), None),
}


def test_windows_that_fire_by_the_clock_do_so_without_data(spark, source):
    rows = source.read_stream(spark)

    def counted(name):
        assigner, trigger = BY_CLOCK[name]
        windows = tidegate.windowed(rows, "split", "timestamp" if assigner.is_event_time() else None).window(assigner)
        windows = windows if trigger is None else windows.trigger(trigger)
        return windows.aggregate(rows="count(*)").withColumn("name", f.lit(name))

    fired, counts = [], Counter()

    def have_counted_all_rows():
        counts.clear()
        for row in fired:
            counts[row.name, row.split] += row.rows
        return counts.total() == 26 * len(BY_CLOCK) or query.exception()

    streams = reduce(DataFrame.union, map(counted, BY_CLOCK))
    query = kept(streams, fired).trigger(processingTime="500 milliseconds").start()
    with running(query):
        await_that(have_counted_all_rows)
        assert query.exception() is None
    assert counts == {(name, split): 13 for name in BY_CLOCK for split in "ab"}
    without_bounds = {row.name for row in fired if (row.window_start, row.window_end) == (None, None)}
    assert without_bounds == {"all times"}
    of_a_minute = {row.start for row in fired if row.name == "a time-out beside the watermark"}
    assert of_a_minute == {NOON, NOON + 60 * SECOND, NOON + 120 * SECOND}


def test_windows_that_end_after_the_last_year_of_spark_close_at_the_end_of_the_source(spark, source, tmp_path):
    rows = source.model_copy(update={"ends": True}).read_stream(spark)
    endless = rows.withColumn("until", f.expr("IF(position = 0, timestamp, TIMESTAMP'9999-12-31 23:59:59Z')"))
    windows = tidegate.windowed(endless, "split", "until").window(tumbling(60))
    counted = [
        kind.aggregate(n="count(*)").selectExpr(f"'{name}' AS kind", "split", "unix_millis(window_end) AS end", "n")
        for name, kind in {"of Spark": windows, "of the operator": windows.side_output_late("late")}.items()
    ]
    found = available_now(counted[0].union(counted[1]), tmp_path / "checkpoint").all_rows
    ends = {NOON + 60 * SECOND: 1, END_OF_TIME_MS + 1: 12}
    assert sorted((row["kind"], row["split"], row["end"], row["n"]) for row in found) == [
        (kind, split, end, n) for kind in ("of Spark", "of the operator") for split in "ab" for end, n in ends.items()
    ]


def test_an_idle_split_holds_no_window(spark, source):
    idle = STRATEGY.with_idleness(timedelta(seconds=1))
    append(source.path, behind=[NOON])  # no more rows come: until the split is idle, no window can close
    rows = source.model_copy(update={"watermarks": idle}).read_stream(spark)
    windows = tidegate.windowed(rows, "split", "timestamp").window(tumbling(60)).side_output_late("late")
    fired, times = [], itertools.count(NOON + 130 * SECOND, 100)

    def has_fired_while_others_go_on():
        now = next(times)
        append(source.path, a=[now], b=[now])
        return any(row.split == "behind" for row in fired) or query.exception()

    query = kept(windows.aggregate(rows="count(*)"), fired).start()
    with running(query):
        await_that(has_fired_while_others_go_on)
        assert query.exception() is None
    assert [(row.start, row.rows, row.output) for row in fired if row.split == "behind"] == [(NOON, 1, "results")]
