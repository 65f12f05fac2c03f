"""The back-fill against a real broker: what it writes, and that nothing ends it for good."""

import signal
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from pyarrow import dataset

from tests.jobs.command import await_that, finish, kill, started
from tests.sources.streams import HOUR, NOON, append, even_times, every, new_topic
from tidegate.jobs.arguments import BackfillArguments
from tidegate.jobs.backfill import write_batches
from tidegate.jobs.output import Output
from tidegate.jobs.survey import survey

COUNTS = (4_000, 4_000, 800)
HISTORY = (even_times(NOON, NOON + 12 * HOUR, 4_000),) * 2 + (even_times(NOON + 10 * HOUR, NOON + 12 * HOUR, 800),)


def at(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc)


def written(out):
    """Return every record in the files as (batch, partition, offset, time in ms), as any reader finds them."""
    table = dataset.dataset(out, format="parquet", partitioning="hive").to_table()
    columns = [table[name].to_pylist() for name in ("batch", "partition", "offset")]
    times = [round(time.timestamp() * 1000) for time in table["timestamp"].to_pylist()]
    return list(zip(*columns, times, strict=True))


def records(rows):
    return sorted((partition, offset) for _, partition, offset, _ in rows)


@pytest.fixture
def write(kafka, spark, tmp_path):
    """Run the back-fill of a topic in this process's Spark; return what all runs have written."""
    output = Output(tmp_path / "out")

    def run(topic, **fields):
        arguments = BackfillArguments(kafka.bootstrap_servers, (topic,), timedelta(hours=1), **fields)
        with output.claimed(arguments.binding()):
            for _ in write_batches(spark, arguments.source(), output):
                pass
        return written(output.path)

    return run


def test_every_record_is_written_once_and_no_batch_overlaps_another_in_time(kafka, write):
    rows = write(new_topic(kafka, *HISTORY))
    assert records(rows) == every(COUNTS)
    times = {}
    for batch, _, _, time_ms in rows:
        times.setdefault(batch, []).append(time_ms)
    in_order = [times[batch] for batch in sorted(times)]
    assert len(in_order) == 12
    assert all(max(before) < min(after) for before, after in pairwise(in_order))


def test_a_later_run_writes_what_is_new(kafka, write):
    topic = new_topic(kafka, [NOON, NOON + 1])
    write(topic)
    append(kafka, topic, {0: [NOON + 2]})
    assert records(write(topic)) == every([3])


def test_from_and_to_are_honoured(kafka, write):
    begin, end = NOON + HOUR, NOON + 3 * HOUR
    rows = write(new_topic(kafka, *HISTORY), begin=at(begin), end=at(end))
    assert sorted(time_ms for *_, time_ms in rows) == sorted([t for t in HISTORY[0] if begin <= t < end] * 2)


def test_a_survey_knows_what_is_left_to_read(kafka):
    topic = new_topic(kafka, *HISTORY)
    source = BackfillArguments(kafka.bootstrap_servers, (topic,), timedelta(hours=1), end=at(NOON + 11 * HOUR)).source()
    found = survey(source, {f"{topic}-0": 4_000})
    assert [stretch.rows for stretch in found.values()] == [0, 3_667, 400]
    assert found[f"{topic}-0"].begin_ms is None
    assert found[f"{topic}-1"].begin_ms == NOON
    assert found[f"{topic}-2"].end_ms == HISTORY[2][399]


def test_killed_and_stopped_midway_it_goes_on(kafka, tmp_path):
    out = tmp_path / "out"
    topic = new_topic(kafka, *HISTORY)
    command = ("backfill", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--out", out)
    command += ("--max-drift", "1 hour", "--kafka", "client.id=hunter2", "--master", "local[2]")
    with started(*command) as process:
        await_that((out / "batch=2").exists, process)
        kill(process)
    with started(*command) as process:
        await_that((out / "batch=5").exists, process)
        process.send_signal(signal.SIGTERM)
        code, _, errors = finish(process)
        assert code == 128 + signal.SIGTERM
        assert "stopped; the same command goes on from here" in errors
        assert "Traceback" not in errors
    with started(*command) as process:
        code, output, errors = finish(process)
    assert code == 0, errors
    assert "100 %" in errors
    assert f"{sum(COUNTS):,} in all" in output
    assert records(written(out)) == every(COUNTS)
    assert "hunter2" not in (out / "_tidegate" / "backfill.json").read_text()
    with started(*command) as process:
        code, output, errors = finish(process)
    assert (code, errors) == (0, "")  # Spark did not even start
    assert f"nothing new  {sum(COUNTS):,} rows" in output
