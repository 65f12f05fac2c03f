"""Windows over streams that are slow, late, idle or wrong."""

import itertools
import json
import os
import re
from datetime import timedelta

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource, append
from tests.support.streams import NOON, available_now, running
from tests.support.waiting import await_that
from tidegate import WatermarkStrategy
from tidegate.windows import (
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
)

SECOND = 1_000
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


class Broken(ProcessWindowFunction):
    def process(self, key, context, elements):
        raise ZeroDivisionError("no good")


def test_a_function_that_raises_is_told_in_one_sentence_with_its_key_and_window(spark, source, tmp_path):
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(tumbling(5))
    broken = windows.process(Broken(), "n bigint").writeStream.format("noop")
    query = broken.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    told = str(raised.value)
    assert re.search("raised ZeroDivisionError: no good .for key '[ab]' and window .17000[0-9]+, 17000[0-9]+. ms", told)
    assert "Traceback" not in told


def test_a_time_out_in_processing_time_fires_without_data_and_the_watermark_fires_beside_it(spark, source):
    windows = tidegate.windowed(source.read_stream(spark), "split", "timestamp").window(tumbling(60))
    timed_out = windows.trigger(ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), timedelta(seconds=1)))
    fired = []
    last = NOON + 120 * SECOND  # which no watermark closes
    query = kept(timed_out.aggregate(rows="count(*)"), fired).trigger(processingTime="500 milliseconds").start()
    with running(query):
        await_that(lambda: any(row.start == last for row in fired) or query.exception(), 180)
        assert query.exception() is None
    assert {row.start for row in fired} == {NOON, NOON + 60 * SECOND, last}


def test_an_idle_split_holds_no_window(spark, source):
    idle = STRATEGY.with_idleness(timedelta(seconds=1))
    append(source.path, behind=[NOON])  # and no more: until it is idle, no window can close
    rows = source.model_copy(update={"watermarks": idle}).read_stream(spark)
    windows = tidegate.windowed(rows, "split", "timestamp").window(tumbling(60)).side_output_late("late")
    fired, times = [], itertools.count(NOON + 130 * SECOND, 100)

    def has_fired_while_others_go_on():
        now = next(times)
        append(source.path, a=[now], b=[now])
        return any(row.split == "behind" for row in fired) or query.exception()

    query = kept(windows.aggregate(rows="count(*)"), fired).start()
    with running(query):
        await_that(has_fired_while_others_go_on, 180)
        assert query.exception() is None
    assert [(row.start, row.rows, row.output) for row in fired if row.split == "behind"] == [(NOON, 1, "results")]
