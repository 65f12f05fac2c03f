"""The account of a run, of Spark's own plans and progress."""

from datetime import timedelta

from pyspark.sql import functions as f

import tidegate
from tests.support.streams import HOUR, MINUTE, NOON, even_times, finish, kafka_source, new_topic, start
from tidegate.jobs.account.account import Figure
from tidegate.windows import TumblingEventTimeWindows


def account_of(rows, checkpoint):
    """Run a query over all that there is, and return its account."""
    query = start(rows, checkpoint, "noop", availableNow=True)
    finish(query)
    return tidegate.account(query)


# ``test_alignment`` has a plan in which rows are read and counted once, and ``test_progress`` the other steps.
def test_the_plan_says_that_rows_may_be_read_twice(spark, kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + 5 * HOUR, 300))
    rows = kafka_source(kafka, topic, starting_offsets="earliest").read_stream(spark)
    marked = rows.unionAll(rows).withWatermark("timestamp", "0 seconds")
    account = account_of(marked.groupBy(f.window("timestamp", "30 minutes")).count(), tmp_path)
    assert (account.read, account.open, account.complete) == (Figure(300, "at most"), Figure(300, "at most"), True)
    assert account.why


def test_late_rows_of_windows_are_those_of_the_source(spark, kafka, tmp_path):
    later = [NOON + MINUTE, NOON + 2 * HOUR, NOON + 2 * HOUR]
    topic = new_topic(kafka, [*even_times(NOON, NOON + HOUR, 100), *later])
    source = kafka_source(kafka, topic, starting_offsets="earliest", max_offsets_per_trigger=100)
    assigner = TumblingEventTimeWindows.of(timedelta(minutes=10))
    windows = tidegate.windowed(source.read_stream(spark), key="topic", event_time="timestamp").window(assigner)
    account = account_of(windows.aggregate(n="count(*)"), tmp_path)
    assert (account.read, account.late) == (Figure(103), Figure(1))
