"""Sources that keep together: in one query, and in several."""

from datetime import timedelta

from pyspark.sql.functions import expr

import tidegate
from tests.support.streams import (
    HOUR,
    MINUTE,
    NOON,
    even_times,
    finish,
    kafka_source,
    milliseconds,
    new_topic,
    parsed,
    start,
)
from tidegate import WatermarkStrategy

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
    left_times, right_times = even_times(NOON - 3 * HOUR, NOON + 3 * HOUR, 7200), even_times(NOON, NOON + 3 * HOUR, 60)
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
