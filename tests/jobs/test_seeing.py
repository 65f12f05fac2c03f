"""A running query, as a program and a person see it, and the account of its rows."""

import logging
import re
import signal
import subprocess
import threading
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

import tidegate
from tests.support.command import await_that, await_while_running, finish, started
from tests.support.streams import HOUR, NOON, even_times, kafka_source, new_topic, running, start
from tests.support.streams import finish as finish_query
from tidegate import OptionError, WatermarkStrategy
from tidegate.jobs.account import of_checkpoint
from tidegate.jobs.account.account import Figure
from tidegate.windows import TumblingEventTimeWindows


def test_a_running_query_is_seen_by_programs_and_by_people(spark, kafka, tmp_path, caplog, monkeypatch, request):
    whole, end = even_times(NOON, NOON + 4 * HOUR, 400), even_times(NOON + 3 * HOUR, NOON + 4 * HOUR, 100)
    topic = new_topic(kafka, whole, whole, end)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
    source = kafka_source(
        kafka,
        topic,
        starting_offsets="earliest",
        watermarks=strategy.with_watermark_alignment(max_drift=timedelta(hours=1)),
    )
    reported, done, command = [], threading.Event(), request.getfixturevalue("tidegate")

    def watched():
        code, table, errors = command("watch", "--once")
        assert (code, errors) == (0, "")
        assert f"{topic} at {kafka.bootstrap_servers}" in table
        return table

    def tell(query, batch, sources):
        reported.append((query, batch, sources))
        if sources[0].rows_remaining == 0:
            done.set()
        raise RuntimeError("a callback of the caller's that fails")

    listener = tidegate.on_progress(spark, tell)
    try:
        with (
            caplog.at_level(logging.ERROR, "tidegate.listener"),
            running(start(source.read_stream(spark), tmp_path / "checkpoint", lambda batch, number: None)) as query,
        ):
            query.processAllAvailable()
            assert done.wait(30)
            (said,) = tidegate.progress(query)
            bound = f"bound     {said.bound:%Y-%m-%d %H:%M:%S}"
            # A planner writes its note twice a second at most, and these batches take less time than that.
            await_that(lambda: bound in watched(), state=watched)
            page = tidegate.report(query, tmp_path / "pages" / "query.html").read_text()
            account = tidegate.account(query)
            monkeypatch.setattr(of_checkpoint, "spark_session", lambda *_: nullcontext(spark))
            outside = command("account", tmp_path / "checkpoint")
            assert query.isActive
    finally:
        spark.streams.removeListener(listener)

    assert [(name, batch) for name, batch, _ in reported] == [(query.id, number) for number in range(4)]
    assert [sources[0].splits for _, _, sources in reported] == [{"paused": 1, "reading": 2}] * 3 + [{"reading": 3}]
    assert reported[0][2][0].paused.keys() == {f"{topic}-2"}
    assert reported[-1][2] == [said]
    assert "a callback of the caller's that fails" in caplog.text
    assert (said.rows_remaining, said.event_time_lag) == (0, timedelta())
    assert said.by_split[f"{topic}-2"].rows_remaining == 0

    assert all(f"{topic}-{partition}</li>" in page for partition in range(3))
    assert "900 rows in 4 batches, late rows 0, complete" in page
    assert (account.read.rows, account.late.rows, account.complete) == (900, 0, True)
    assert outside[1] == f"{account}\n"
    assert account.sources[0].by_split == {f"{topic}-0": 400, f"{topic}-1": 400, f"{topic}-2": 100}
    assert f"{topic}-2 paused, batches 0 to 2" in page


def test_the_page_of_a_run_that_repeats_a_batch_says_that_it_is_not_shown(spark, kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + 4 * HOUR, 400), even_times(NOON + 3 * HOUR, NOON + 4 * HOUR, 100))
    drift = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(max_drift=timedelta(hours=1))
    rows = kafka_source(kafka, topic, starting_offsets="earliest", watermarks=drift).read_stream(spark)
    counts = {}

    def fail(batch, number):
        if number == 1:
            raise RuntimeError("in the second batch")

    def count(batch, number):
        counts[number] = batch.count()

    with pytest.raises(StreamingQueryException):
        finish_query(start(rows, tmp_path / "checkpoint", fail, availableNow=True))
    query = start(rows, tmp_path / "checkpoint", count, availableNow=True)
    finish_query(query)
    page = tidegate.report(query, tmp_path / "query.html").read_text()
    assert counts == {1: 100, 2: 100, 3: 200}
    assert "300 rows in 2 batches, late rows 0, complete" in page
    assert "went on from a checkpoint: what earlier runs planned, up to batch 1, is not shown" in page


def test_a_query_without_a_source_of_ours_has_nothing_to_show(spark, tmp_path):
    rate = spark.readStream.format("rate").load()
    with running(start(rate, tmp_path / "checkpoint", lambda batch, number: None)) as query:
        assert tidegate.progress(query) == []
        with pytest.raises(OptionError, match="wait for its first batch"):
            tidegate.report(query, tmp_path / "query.html")
        with pytest.raises(OptionError, match=r"account\(\) takes a query"):
            tidegate.account(rate)
    assert not (tmp_path / "query.html").exists()


def catches(process, number):
    """Tell whether a process has a handler of its own for a signal, as Linux shows it."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return int(mask, 16) >> (number - 1) & 1


@pytest.mark.slow
def test_watch_goes_on_until_it_is_told_to_end(tmp_path):
    with started("watch", env={"PATH": "/usr/bin", "TMPDIR": str(tmp_path)}) as process:
        await_while_running(lambda: catches(process, signal.SIGTERM), process)  # it has begun, at last
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGTERM)
        code, _, errors = finish(process)
    assert (code, errors) == (0, "")


def account_of(rows, checkpoint):
    """Run a query over all that there is, and return its account."""
    query = start(rows, checkpoint, "noop", availableNow=True)
    finish_query(query)
    return tidegate.account(query)


def test_a_run_that_finds_nothing_new_has_an_account_without_batches(spark, kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 100))
    rows = kafka_source(kafka, topic, starting_offsets="earliest").read_stream(spark)
    first, second = (account_of(rows, tmp_path) for _ in range(2))
    assert (first.read, first.batches, first.headline) == (Figure(100), (0, 0), "late rows 0, complete")
    assert (second.read, second.batches, second.headline) == (Figure(0), None, "late rows 0, complete")


# ``test_alignment`` has a plan in which rows are read and counted once, and ``test_progress`` the other steps.
def test_the_plan_says_that_rows_may_be_read_twice(spark, kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + 5 * HOUR, 300))
    rows = kafka_source(kafka, topic, starting_offsets="earliest").read_stream(spark)
    marked = rows.unionAll(rows).withWatermark("timestamp", "0 seconds")
    account = account_of(marked.groupBy(f.window("timestamp", "30 minutes")).count(), tmp_path)
    assert (account.read, account.open, account.complete) == (Figure(300, "at most"), Figure(300, "at most"), True)
    assert account.why


def test_rows_read_and_offsets_that_a_condition_left_out_are_all_offsets(spark, kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 100), even_times(NOON, NOON + HOUR, 50))
    source = kafka_source(kafka, topic, starting_offsets="earliest", where="offset < 30 AND partition = 0")
    assigner = TumblingEventTimeWindows.of(timedelta(minutes=10))
    windows = tidegate.windowed(source.read_stream(spark), key="topic", event_time="timestamp").window(assigner)
    account = account_of(windows.aggregate(n="count(*)"), tmp_path)  # of rows that the source sums up
    assert (account.read, account.sources[0].unselected, account.complete) == (Figure(30), Figure(120), True)
