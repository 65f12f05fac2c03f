"""The bridge serves any source: here one that shares no code with Kafka's."""

from datetime import timedelta

import pytest

from tests.sources.memory import MemorySource, append
from tidegate import WatermarkStrategy

HOUR = 3_600_000


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "splits.json")


def run(frame, tmp_path, **trigger):
    """Run a stream to its end and return its rows by batch, with the query."""
    batches = []

    def keep(batch, _):
        batches.append(sorted((r["split"], r["position"]) for r in batch.collect()))

    query = (
        frame.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )
    query.awaitTermination(60)
    assert not query.isActive
    return [batch for batch in batches if batch], query


def test_splits_are_read_side_by_side_in_event_time(spark, path, tmp_path):
    append(path, early=[h * HOUR for h in range(10)], late=[h * HOUR for h in range(5, 10)])
    source = MemorySource(
        path=path,
        watermarks=WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(max_drift=timedelta(hours=2)),
    )
    batches, _ = run(source.read_stream(spark), tmp_path)
    assert batches == [
        [("early", 0), ("early", 1)],
        [("early", 2), ("early", 3)],
        [("early", 4), ("early", 5), ("late", 0)],
        [("early", 6), ("early", 7), ("late", 1), ("late", 2)],
        [("early", 8), ("early", 9), ("late", 3), ("late", 4)],
    ]


def test_a_batch_query_reads_everything_once(spark, path):
    append(path, a=range(3000), b=range(5), empty=[])
    frame = MemorySource(path=path).read(spark)
    assert sorted((r["split"], r["position"]) for r in frame.collect()) == [
        *(("a", i) for i in range(3000)),
        *(("b", i) for i in range(5)),
    ]


def test_a_batch_query_over_nothing_gives_no_rows(spark, path):
    append(path, a=[])
    assert MemorySource(path=path).read(spark).count() == 0


def test_a_second_run_reads_only_what_came_since(spark, path, tmp_path):
    append(path, a=range(10), b=range(10))
    source = MemorySource(path=path, max_rows_per_trigger=7)
    first, _ = run(source.read_stream(spark), tmp_path)
    append(path, a=range(10, 13), c=range(4))
    second, _ = run(source.read_stream(spark), tmp_path)
    assert all(len(batch) <= 7 for batch in first + second)
    assert sorted(sum(first, [])) == [*(("a", i) for i in range(10)), *(("b", i) for i in range(10))]
    assert sorted(sum(second, [])) == [*(("a", i) for i in range(10, 13)), *(("c", i) for i in range(4))]


def test_the_source_watermark_is_a_column_of_every_row(spark, path, tmp_path):
    append(path, a=[0, 1000, 2000], b=[0, 500])
    frame = MemorySource(path=path, include_source_watermark=True).read_stream(spark)
    seen = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: seen.extend(r["source_watermark"] for r in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    # The slower split was read up to 500 ms; the watermark is one less.
    assert {at.timestamp() for at in seen} == {0.499}


def test_the_report_of_the_plan_stands_in_sparks_progress(spark, path, tmp_path):
    append(path, a=range(10), b=range(10))
    _, query = run(MemorySource(path=path).read_stream(spark), tmp_path)
    report = query.recentProgress[0].sources[0].latestOffset
    assert '"rowsRemaining":0' in report.replace(" ", "")


def test_no_planner_process_is_left_after_stop(spark, path, tmp_path):
    append(path, a=range(10))
