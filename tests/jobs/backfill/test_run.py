"""The back-fill against a real broker: its files, and runs that go on after anything has ended them."""

import os
import signal
from contextlib import nullcontext
from itertools import pairwise

import pytest
from pyarrow import dataset

from tests.jobs.backfill.sources import asked
from tests.jobs.checkpoints import log_batch
from tests.support.command import await_while_running, descendants, finish, started
from tests.support.streams import HOUR, NOON, even_times, every, new_topic
from tidegate.errors import OptionError
from tidegate.jobs import backfill as backfill_run
from tidegate.jobs.backfill import Output, backfill, binding

COUNTS = (2_000, 2_000, 800)
HISTORY = (even_times(NOON, NOON + 6 * HOUR, 2_000),) * 2 + (even_times(NOON + 4 * HOUR, NOON + 6 * HOUR, 800),)


def written(out):
    """Return every record in the files as (batch, partition, offset, time in ms), as any reader finds them."""
    table = dataset.dataset(out, format="parquet", partitioning="hive").to_table()
    columns = [table[name].to_pylist() for name in ("batch", "partition", "offset")]
    times = [round(time.timestamp() * 1000) for time in table["timestamp"].to_pylist()]
    return list(zip(*columns, times, strict=True))


def records(rows):
    return sorted((partition, offset) for _, partition, offset, _ in rows)


def test_another_cluster_is_refused_though_it_has_nothing_new(kafka, tmp_path):
    topic, output = new_topic(kafka, [NOON] * 5), Output(tmp_path / "out")
    source = asked(output.path, bootstrap_servers=kafka.bootstrap_servers, topic=[topic])
    with output.alone():
        output.claim(binding(source, output.path))
    log_batch(output.checkpoint, 0, {f"{topic}-0": 5}, state={"cluster": "another"})
    with pytest.raises(OptionError) as raised:
        backfill(source, output.path, print, master="local[1]")
    assert str(raised.value) == (
        f"--bootstrap-servers is {kafka.bootstrap_servers}, which is another Kafka cluster than the one that "
        "the output was begun with; give that one, or another --out"
    )


def kill_java_of(process):
    (java,) = descendants(process.pid, "SparkSubmit")
    os.kill(java, signal.SIGKILL)


def test_killed_and_stopped_midway_it_goes_on(kafka, spark, tidegate, tmp_path, monkeypatch):
    """Every record is written once, and no batch overlaps another in event time.

    Only the command's Spark is killed here.  ``tests/sources/test_kills.py`` kills drivers with all their processes.
    """
    out = tmp_path / "out"
    topic = new_topic(kafka, *HISTORY)
    command = ("backfill", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--out", out)
    command += ("--max-drift", "1 hour", "--kafka", "client.id=hunter2", "--master", "local[2]")
    with started(*command) as process:
        await_while_running((out / "batch=1").exists, process)
        kill_java_of(process)
        code, _, errors = finish(process)
        assert code == 1
        assert f"\ntidegate: Spark's Java process has died; {out}/_tidegate/spark.log may say why\n" in errors
    with started(*command) as process:
        await_while_running((out / "batch=2").exists, process)
        process.send_signal(signal.SIGTERM)
        code, _, errors = finish(process)
        assert code == 128 + signal.SIGTERM
        assert "stopped; the same command continues from here" in errors
        assert "Traceback" not in errors
    monkeypatch.setattr(backfill_run, "spark_session", lambda *_: nullcontext(spark))
    (code, output, shown), (code_again, again, _) = (tidegate(*command) for _ in range(2))
    assert (code, code_again) == (0, 0), shown
    assert "100 %" in shown
    assert f"{sum(COUNTS):,} in all" in output
    assert " ".join(output.splitlines()[-1].split()) == "account late rows 0, complete"
    assert f"nothing new  {sum(COUNTS):,} rows" in again
    rows = written(out)
    assert records(rows) == every(COUNTS)
    assert {batch for batch, *_ in rows} == {*range(6)}
    times = [[time_ms for batch, *_, time_ms in rows if batch == number] for number in range(6)]
    assert all(max(before) < min(after) for before, after in pairwise(times))
    notes = (out / "_tidegate" / "backfill.json").read_text()
    assert "hunter2" not in notes
