"""Skewed topics of a real broker through Spark: alone, in a group, and in runs of every hour."""

import json
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta

import numpy as np
from pyspark.sql.functions import expr, window

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
    parsed,
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


DRIFT = timedelta(hours=1)
DELAY = "1 minute"


def grouped(kafka, topic, group, **fields):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1)).with_watermark_alignment(
        max_drift=DRIFT,
        group=group,
        members=fields.pop("members", None),
        lease=timedelta(seconds=10),  # on a busy machine Spark may kill a planner before it leaves
    )
    return kafka_source(kafka, topic, watermarks=strategy, starting_offsets="earliest", **fields)


def test_a_join_of_two_topics_that_are_hours_apart_loses_no_match_and_keeps_little_state(spark, kafka, tmp_path):
    left_times, right_times = even_times(NOON - 2 * HOUR, NOON + 2 * HOUR, 4800), even_times(NOON, NOON + 2 * HOUR, 40)
    left, right = new_topic(kafka, left_times), new_topic(kafka, right_times)
    frames = [
        tidegate.with_source_watermark(
            grouped(kafka, topic, "join", source_watermark="rows").read_stream(spark),
            "timestamp",
            DELAY,
        ).alias(name)
        for name, topic in (("l", left), ("r", right))
    ]
    apart = "interval 1 minute"
    within = f"l.partition = r.partition and l.timestamp between r.timestamp - {apart} and r.timestamp + {apart}"
    joined = frames[0].join(frames[1], expr(within)).select(expr("l.timestamp as at"), expr("r.timestamp as other"))
    query = start(joined, tmp_path, "memory", name="matches", availableNow=True)
    finish(query)
    matches = sorted((milliseconds(r["at"]), milliseconds(r["other"])) for r in spark.table("matches").collect())
    expected = sorted((int(a), int(b)) for a in left_times for b in right_times if abs(a - b) <= MINUTE)
    assert matches == expected
    rows = [sum(operator.numRowsTotal for operator in p.stateOperators) for p in query.recentProgress]
    in_a_drift = 1200 + 20
    assert max(rows) <= 1.1 * in_a_drift
    for progress in query.recentProgress:
        bounds = [parsed(source.latestOffset)["bound"] for source in progress.sources]
        assert None in bounds or abs(bounds[0] - bounds[1]) <= HOUR


def test_two_bounded_queries_wait_for_each_other_and_both_read_everything(spark, kafka, tmp_path):
    topics = {
        "early": new_topic(kafka, even_times(NOON - 5 * HOUR, NOON, 500)),
        "late": new_topic(kafka, even_times(NOON - 1 * HOUR, NOON, 400)),
    }
    read = {name: [] for name in topics}

    def keep(name):
        def on_batch(batch, _):
            read[name].append([(row["offset"], milliseconds(row["timestamp"])) for row in batch.collect()])

        return on_batch

    queries = {}
    for name in ("late", "early"):  # the one that has to wait comes first
        frame = grouped(kafka, topics[name], "two", members=2).read_stream(spark)
        queries[name] = start(frame.select("offset", "timestamp"), tmp_path / name, keep(name), availableNow=True)
    for query in queries.values():
        finish(query)
    assert [offset for batch in read["early"] for offset, _ in batch] == list(range(500))
    assert [offset for batch in read["late"] for offset, _ in batch] == list(range(400))
    for progress in queries["late"].recentProgress:
        report = parsed(progress.sources[0].latestOffset)
        if progress.numInputRows and report["heldBy"] is not None:
            assert report["bound"] <= report["low"] + HOUR


RUNS, TRAILS_BY = 2, 3 * HOUR
HOURLY = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1))
# Out-of-orderness + max drift, and a little: at the delay itself, Spark's filter takes a row.
DELAY_OF_RUNS = "61 minutes"


def two_topics_of_a_group(spark, kafka):
    topics = [new_topic(kafka, []), new_topic(kafka, [])]
    strategy = HOURLY.with_watermark_alignment(max_drift=timedelta(hours=1), group="hourly")
    first, second = (
        kafka_source(kafka, topic, starting_offsets="earliest", watermarks=strategy).read_stream(spark)
        for topic in topics
    )
    return first.union(second), [(topic, 0) for topic in topics]


def test_no_row_of_a_topic_that_trails_the_other_of_its_group_by_more_than_the_drift_is_late(spark, kafka, tmp_path):
    frame, written_to = two_topics_of_a_group(spark, kafka)
    counts = frame.withWatermark("timestamp", DELAY_OF_RUNS).groupBy(window("timestamp", "1 minute"), "topic").count()
    counted = {}

    def keep(batch, _):
        counted.update({(row["topic"], row["window"].start): row["count"] for row in batch.collect()})

    for hour in range(RUNS):
        for (topic, partition), trails_by in zip(written_to, (0, TRAILS_BY), strict=True):
            begin = NOON + hour * HOUR - trails_by
            append(kafka, topic, {partition: even_times(begin, begin + HOUR, HOUR // MINUTE)})
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path)).foreachBatch(keep)
        query = writer.trigger(availableNow=True).start()
        finish(query)
        assert sum(o.numRowsDroppedByWatermark for p in query.recentProgress for o in p.stateOperators) == 0
    # Of the one that is ahead, what is more than the drift ahead is left to the next run.
    behind = RUNS * HOUR // MINUTE
    assert behind <= sum(counted.values()) <= behind + (TRAILS_BY + HOUR) // MINUTE
