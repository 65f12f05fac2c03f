"""The back-fill of a topic and of objects, as a program that is killed, stopped and started again."""

import os
import signal
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from pyarrow import dataset

from tests.jobs.checkpoints import log_batch
from tests.sources.kafka.test_event_time import produce, set_aside
from tests.support.command import await_while_running, descendants, finish, started
from tests.support.logs import coordinating
from tests.support.streams import HOUR, MINUTE, NOON, even_times, every, new_topic
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import OptionError
from tidegate.jobs import backfill as backfill_run
from tidegate.jobs.backfill import Output, RunLine, backfill, backfill_source, binding, write_batches


def asked(out, path=None, *, max_drift="1 hour", begin=None, end=None, options=(), **of_kafka):
    """Return the source of a command; ``options``: pairs, or a mapping."""
    return backfill_source(
        out,
        max_drift=max_drift,
        max_out_of_orderness="0 seconds",
        begin=begin,
        end=end,
        options=[f"{name}={value}" for name, value in dict(options).items()],
        path=path,
        of_kafka={f"--{name.replace('_', '-')}": value for name, value in of_kafka.items()},
    )


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
    java, *_ = descendants(process.pid, "SparkSubmit")  # Java comes before what it forks
    os.kill(java, signal.SIGKILL)


def test_a_time_that_is_still_to_come_ends_a_run_where_the_topic_ends(kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + 9 * HOUR, 90), even_times(NOON, NOON + HOUR, 10))
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    source = asked(tmp_path, end=tomorrow.isoformat(), bootstrap_servers=kafka.bootstrap_servers, topic=[topic])
    with coordinating(source) as run:
        run.bound_run()
        start = INITIAL_OFFSET
        while (end := run.latest_offset(start)) != start:
            start = end
    assert (start["positions"], start["ended"]) == ({f"{topic}-0": 90, f"{topic}-1": 10}, True)


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
        assert f"\ntidegate: Spark's Java process has died; {out}/_tidegate/spark.log may say why" in errors
    monkeypatch.setattr(backfill_run, "spark_session", lambda *_, **__: nullcontext(spark))
    with monkeypatch.context() as patch:
        patch.setattr(RunLine, "after", lambda *_: signal.raise_signal(signal.SIGTERM))
        code, _, errors = tidegate(*command)
    assert code == 128 + signal.SIGTERM
    assert "stopped; the same command continues from here" in errors
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


def test_a_run_that_was_killed_keeps_others_out_until_its_java_has_ended_too(kafka, tmp_path, monkeypatch):
    out, topic = tmp_path / "out", new_topic(kafka, [NOON] * 5)
    command = ("backfill", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--out", out)
    with started(*command, "--max-drift", "1 hour", "--master", "local[1]") as process:
        await_while_running((out / "_tidegate" / "checkpoint").exists, process)
        java, *_ = descendants(process.pid, "SparkSubmit")
        os.kill(java, signal.SIGSTOP)  # it would end soon after, and write until then
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with monkeypatch.context() as patch:
            patch.setattr(backfill_run, "_ENDING_S", 0.0)
            with pytest.raises(OptionError, match="to which another back-fill is writing"), Output(out).alone():
                pass
        os.kill(java, signal.SIGKILL)
        with Output(out).alone():
            pass


def test_decoded_values_are_columns_of_the_files_and_all_bad_ones_are_counted(kafka, spark, tmp_path, monkeypatch):
    topic, output = new_topic(kafka, []), Output(tmp_path / "out")
    produce(kafka, topic, 0, [(b'{"id":%d,"shop":{"name":"a"}}' % number, []) for number in range(6)] + [(b"bad", [])])
    options = {
        "valueFormat": "json",
        "valueSchema": "id BIGINT, shop STRUCT<name: STRING>",
        "where": "value.id >= 2",
        "badRecordsPath": str(tmp_path / "bad"),
    }
    source = asked(output.path, bootstrap_servers=kafka.bootstrap_servers, topic=[topic], options=options)
    monkeypatch.setattr(backfill_run, "spark_session", lambda *_, **__: nullcontext(spark))
    said = dict(backfill(source, output.path, print, master="local[1]"))
    assert (said["rows written"], said["bad records"]) == ("4", "1 set aside")
    assert said["account"] == "late rows 0, complete"
    table = dataset.dataset(output.path, format="parquet", partitioning="hive").to_table()
    rows = sorted(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert rows == [(number, {"id": number, "shop": {"name": "a"}}) for number in range(2, 6)]
    assert set_aside(tmp_path / "bad") == [(0, 6)]


HOURS = 24


def fill(bucket, hours, name="{}.parquet"):
    """Write an object of two rows for each hour; ids count up over all objects."""
    for hour in hours:
        rows = [(2 * hour + n, NOON + hour * HOUR + n * MINUTE) for n in range(2)]
        bucket.put_rows(name.format(f"{(hour * 7) % HOURS:02}-{hour}"), rows)


def written_objects(out):
    """Return the rows in the files as (batch, id), in order."""
    table = dataset.dataset(out, format="parquet", partitioning="hive").to_table(["batch", "id"])
    return sorted(zip(table["batch"].to_pylist(), table["id"].to_pylist(), strict=True))


@pytest.fixture
def source(bucket, tmp_path):
    def make(**options):
        given = {"eventTime": "column:at", **bucket.options, **options}
        return asked(tmp_path / "out", bucket.path, max_drift="6 hours", options=given)

    return make


def test_runs_that_end_midway_write_every_row_once_and_show_how_far_they_are(
    spark, bucket, source, tmp_path, monkeypatch
):
    fill(bucket, range(HOURS))
    output, shown = Output(tmp_path / "out"), []
    folder = Output.batch

    def full(output, number, columns):
        if number == 2:
            raise OSError("the disk is full")
        return folder(output, number, columns)

    def run():
        line = RunLine()
        shown.extend(map(line.after, write_batches(spark, source(), output)))

    with output.alone():
        output.claim(binding(source(), output.path))
        monkeypatch.setattr(Output, "batch", full)
        with pytest.raises(Exception, match="the disk is full"):
            run()
        monkeypatch.undo()
        run()
        fill(bucket, [HOURS])
        run()
    rows = written_objects(output.path)
    assert rows == [(row // 12, row) for row in range(2 * HOURS + 2)]
    assert output.rows() == len(rows)
    assert shown[0].startswith("25.0 % · 12 rows · ")
    assert "rows/s · read up to 2023-11-15 18:00:00 · " in shown[0]
    # The second run begins with a batch that the first one has planned, and the third one with nothing.
    assert [line.split(" · ")[0] for line in shown] == ["25.0 %", "50.0 %", "12 rows", "100 %", "100 %"]
