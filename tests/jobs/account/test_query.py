"""The account of a run, of Spark's own plans and progress."""

from datetime import timedelta

import pytest
from pyspark.sql import functions as f

import tidegate
from tests.support.streams import HOUR, MINUTE, NOON, append, even_times, finish, kafka_source, new_topic, start
from tidegate.jobs.account.account import NO_ROWS, Figure
from tidegate.windows import TumblingEventTimeWindows

KEPT = "spark.sql.streaming.numRecentProgressUpdates"
READ = Figure(300)
AT_MOST = Figure(300, "at most")


@pytest.fixture(scope="module")
def stream(spark, kafka):
    """A stream of 300 records, one a minute."""
    topic = new_topic(kafka, even_times(NOON, NOON + 5 * HOUR, 300))
    return kafka_source(kafka, topic, starting_offsets="earliest").read_stream(spark)


@pytest.fixture
def told(tmp_path):
    """Run a query over all that there is, and return its account."""

    def run(rows, *, checkpoint=tmp_path, sink="noop"):
        query = start(rows, checkpoint, sink, availableNow=True)
        finish(query)
        return tidegate.account(query)

    return run


def counted(rows):
    marked = rows.withWatermark("timestamp", "0 seconds")
    return marked.groupBy(f.window("timestamp", "30 minutes")).count()


def twice(rows):
    return rows.unionAll(rows)


def write_twice(batch, number):
    for _ in range(2):
        batch.write.format("noop").mode("append").save()


# ``test_progress`` has the other steps.
@pytest.mark.parametrize(
    ("steps", "read", "open_"),
    [([], READ, NO_ROWS), ([counted], READ, Figure(30)), ([twice, counted], AT_MOST, AT_MOST)],
)
def test_the_plan_says_whether_rows_are_read_and_counted_once(stream, told, steps, read, open_):
    rows = stream
    for step in steps:
        rows = step(rows)
    account = told(rows)
    assert (account.read, account.open, account.complete) == (read, open_, True)
    assert bool(account.why) == (read != READ)


def test_a_sink_that_may_read_twice_leaves_a_bound_and_does_not_show_what_was_lost(spark, kafka, told):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 300))
    source = kafka_source(kafka, topic, starting_offsets="earliest", fail_on_data_loss=False)
    account = told(source.read_stream(spark), sink=write_twice)
    assert (account.read, account.complete) == (AT_MOST, False)


def test_late_rows_of_windows_are_those_of_the_source(spark, kafka, told, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 100))
    rows = kafka_source(kafka, topic, starting_offsets="earliest").read_stream(spark)
    assigner = TumblingEventTimeWindows.of(timedelta(minutes=10))
    windows = tidegate.windowed(rows, key="topic", event_time="timestamp").window(assigner).aggregate(n="count(*)")
    assert told(windows, checkpoint=tmp_path / "checkpoint").late == NO_ROWS
    append(kafka, topic, {0: [NOON + MINUTE, NOON + 2 * HOUR, NOON + 2 * HOUR]})
    account = told(windows, checkpoint=tmp_path / "checkpoint")
    assert (account.read, account.late) == (Figure(3), Figure(1))


def test_batches_that_spark_has_forgotten_are_missing_whatever_its_setting_is_now(spark, kafka, told, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 10))
    source = kafka_source(kafka, topic, starting_offsets="earliest", max_offsets_per_trigger=2)
    rows, checkpoint = source.read_stream(spark), tmp_path / "checkpoint"
    before = spark.conf.get(KEPT)
    try:
        spark.conf.set(KEPT, "3")
        query = start(rows, checkpoint, "noop", availableNow=True)
        finish(query)
    finally:
        spark.conf.set(KEPT, before)
    missing = "the batches of this run before batch 3, which Spark no longer has"
    assert tidegate.account(query).missing == (missing,)
    assert missing in tidegate.report(query, tmp_path / "query.html").read_text()
    append(kafka, topic, {0: [NOON + 2 * HOUR]})
    account = told(rows, checkpoint=checkpoint)
    assert (account.read, account.batches, account.missing) == (Figure(1), (5, 5), ())
