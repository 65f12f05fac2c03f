"""Skewed topics of a real broker through Spark.  ``tests/docs/test_recipes.py`` has groups, and runs of every hour."""

import json
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta

import numpy as np
from pyspark.sql.functions import window

import tidegate
from tests.support.streams import (
    HOUR,
    MINUTE,
    NOON,
    append,
    even_times,
    finish,
    kafka_source,
    milliseconds,
    new_topic,
    running,
    start,
)
from tidegate import WatermarkStrategy
from tidegate.jobs.account import of_checkpoint
from tidegate.jobs.account.account import Figure
from tidegate.jobs.account.of_progress import rows_in_state
from tidegate.sources.progress.query import PlanFacts
from tidegate.spark_private import plan_steps

WINDOW = 5 * MINUTE


def aligned(minutes, **fields):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
    return {
        "watermarks": strategy.with_watermark_alignment(max_drift=timedelta(minutes=minutes)),
        "starting_offsets": "earliest",
        **fields,
    }


def dropped(query):
    return sum(operator.numRowsDroppedByWatermark for p in query.recentProgress for operator in p.stateOperators)


def test_a_windowed_count_over_skewed_history_loses_no_row(spark, kafka, tmp_path, monkeypatch, capsys):
    early, late = even_times(NOON, NOON + 24 * HOUR, 10_000), even_times(NOON + 22 * HOUR, NOON + 24 * HOUR, 1_000)
    topic = new_topic(kafka, early, early, early, late)
    source = kafka_source(kafka, topic, **aligned(180, max_offsets_per_trigger=5_000))
    marked = source.read_stream(spark).withWatermark("timestamp", "1 minute")
    counts = marked.groupBy(window("timestamp", "5 minutes")).count()
    query = start(counts, tmp_path, "memory", name="skewed", availableNow=True)
    finish(query)
    counted = {milliseconds(row["window"].start): row["count"] for row in spark.table("skewed").collect()}
    times = np.concatenate([early, early, early, late])
    closed = Counter(int(t) // WINDOW * WINDOW for t in times)
    watermark = int(times.max()) - MINUTE
    assert counted == {begin: n for begin, n in closed.items() if begin + WINDOW <= watermark}
    assert dropped(query) == 0
    account = tidegate.account(query)
    closed = sum(counted.values())
    assert [account.read, account.closed, account.open, account.late] == [
        *map(Figure, (31_000, closed, 31_000 - closed, 0))
    ]
    assert account.complete
    # count(*) FILTER (WHERE ...) has the same name in the state, but does not count all rows.
    facts = PlanFacts.of(plan_steps(query), 1)
    filtered = facts._replace(counts_all=False)
    assert rows_in_state(spark, str(tmp_path), filtered) == Figure(31_000 - closed, "at least")
    assert rows_in_state(spark, str(tmp_path)) == Figure(31_000 - closed, "about")
    first = query.recentProgress[0].numInputRows
    assert rows_in_state(spark, str(tmp_path), facts, 0) == Figure(first)
    monkeypatch.setattr(of_checkpoint, "spark_session", lambda *_: nullcontext(spark))
    of_checkpoint.run_account(str(tmp_path), as_json=True)
    reported = json.loads(capsys.readouterr().out)
    names = ("read", "closed", "open", "late", "setAside", "complete")
    assert [reported[name] for name in names] == [31_000, closed, 31_000 - closed, 0, 0, True]
    assert reported["bounds"] == {}


def test_at_the_live_edge_a_producer_that_trails_by_more_than_the_drift_loses_no_row(spark, kafka, tmp_path):
    """The README's rule: a delay of out-of-orderness plus max drift."""
    topic = new_topic(kafka, [NOON], [NOON])
    watermarks = aligned(10)["watermarks"].with_idleness(timedelta(hours=1))  # longer than any delay of a slow machine
    source = kafka_source(kafka, topic, starting_offsets="earliest", watermarks=watermarks)
    marked = source.read_stream(spark).withWatermark("timestamp", "11 minutes")
    with running(start(marked.groupBy(window("timestamp", "1 minute")).count(), tmp_path, "noop")) as query:
        for begin in (NOON, NOON + 30 * MINUTE):
            for partition in (0, 1):  # the second is half an hour behind whenever the first has been read
                append(kafka, topic, {partition: even_times(begin, begin + 30 * MINUTE, 60)})
                query.processAllAvailable()
        while sum(p.numInputRows for p in query.recentProgress) != 2 + 2 * 120:  # the time limit ends it in vain
            query.processAllAvailable()
        assert dropped(query) == 0
