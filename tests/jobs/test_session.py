"""What commands start and read: a Spark, a Kafka, and the checkpoints of Spark."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.jobs.checkpoints import log_batch
from tests.support.command import PATIENCE_S, await_that, descendants, finish, started
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import CheckpointError
from tidegate.jobs.kafka import _create
from tidegate.jobs.spark_checkpoint import BatchLogs
from tidegate.servers.server import free_ports

JAVA = "SparkSubmit"  # in the command line of Spark's Java, of the script that becomes it, and of what it starts
_SESSION = """
import sys, time
from pathlib import Path
from tidegate.errors import ServerError
from tidegate.jobs.session import spark_session

def work(folder):
    Path(folder, "begun").touch()
    time.sleep(60)  # the work itself, which the signal ends

class LosesJava:
    def __enter__(self):
        pass

    def __exit__(self, *_):  # PySpark's own contexts do so at times
        raise ConnectionError("Answer from Java side is empty")

master, folder = sys.argv[1:]
try:
    with spark_session(master, "test", Path(folder, "spark.log")) as spark:
        spark.sparkContext.pythonExec = sys.executable  # no source is registered, which does so
        with LosesJava():
            spark.sparkContext.parallelize([folder], 1).foreach(work)
except ServerError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


@contextmanager
def session(master, folder):
    """Start a session whose only job waits for a minute."""
    command = (sys.executable, "-c", _SESSION, master, folder)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_master_that_is_none_is_one_sentence(tmp_path):
    with session("locale", tmp_path) as process:
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert errors == f"Spark did not start with the master 'locale'; {tmp_path}/spark.log says why\n"


def test_an_interrupt_while_java_starts_leaves_no_java_behind(tmp_path):
    with session("local[1]", tmp_path) as process:
        started = []
        await_that(lambda: started.extend(descendants(process.pid, JAVA)[:1]) or started)
        (java,) = started
        try:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_S)
            assert errors == "interrupted\n"
            await_that(lambda: not Path(f"/proc/{java}").exists())
        finally:
            with suppress(ProcessLookupError):
                os.kill(java, signal.SIGKILL)


def test_a_signal_while_java_is_asked_prints_no_stack(tmp_path):
    with session("local[1]", tmp_path) as process:
        await_that((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert errors == "interrupted\n"


def test_it_serves_at_its_port_until_it_is_told_to_end_and_leaves_only_its_folder(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    (port,) = free_ports(1)
    given = ("--topic", "orders:3", "--topic", "payments", "--port", port, "--folder", tmp_path / "data")
    with started("kafka", *given, env=environment) as process:
        servers = process.stdout.readline().strip()
        assert servers == f"127.0.0.1:{port}"
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            topics = {t["name"]: len(t["partitions"]) for t in admin.describe_topics(["orders", "payments"])}
        assert topics == {"orders": 3, "payments": 1}
        process.send_signal(signal.SIGTERM)
        code, output, errors = finish(process)
    assert (code, output) == (0, "")
    assert errors.splitlines()[-1] == "Kafka has ended."
    assert [folder.name for folder in tmp_path.iterdir()] == ["data"]


def test_a_topic_that_an_earlier_start_made_is_left_as_it_is(kafka):
    for partitions in (2, 3):
        _create(kafka, "made-before", partitions)
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        (topic,) = admin.describe_topics(["made-before"])
    assert len(topic["partitions"]) == 2


def test_a_topic_is_added_to_the_kafka_that_runs(tidegate, kafka):
    _, port = kafka.bootstrap_servers.split(":")
    servers = kafka.bootstrap_servers
    added = tidegate("kafka", "--add-topic", "added-later:3", "--add-topic", "added-last", "--port", port)
    assert added == (0, f"added-later:3 is a topic of {servers}\nadded-last:1 is a topic of {servers}\n", "")
    for name, sentence in (("added-later", f"but {servers} has a topic of that name"), ("a/b", "which Kafka refuses")):
        assert f"--add-topic is {name!r}, {sentence}" in str(tidegate("kafka", "--add-topic", name, "--port", port)[0])
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        assert len(admin.describe_topics(["added-later"])[0]["partitions"]) == 3


def test_where_no_kafka_runs_a_topic_is_not_added(tidegate):
    (port,) = free_ports(1)
    assert tidegate("kafka", "--add-topic", "orders", "--port", port)[0] == (
        f"tidegate: no Kafka answers at 127.0.0.1:{port}; "
        f"start one with `tidegate kafka --port {port}`, or give another --port"
    )


def test_a_folder_that_cannot_be_written_is_one_sentence(tidegate, tmp_path):
    (tmp_path / "file").touch()
    sentence = f"tidegate: --folder is '{tmp_path}/file/data', where nothing can be written: Not a directory"
    assert tidegate("kafka", "--folder", tmp_path / "file" / "data") == (sentence, "", "")


def test_a_port_that_another_program_uses_is_one_sentence(tidegate):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        sentence = f"tidegate: port {port} of 127.0.0.1 cannot be used: Address already in use; choose another port"
        assert tidegate("kafka", "--port", port) == (sentence, "", "Kafka starts.\n")


def of(folder, source="s3"):
    return BatchLogs.read(LocalFolder(folder, "checkpoint")).of_source(lambda offset: offset.source == source)


@pytest.mark.parametrize("version", [1, 2])
def test_a_source_is_found_among_the_others_of_its_query_batch_by_batch(tmp_path, version):
    log = {"source": "s3", "version": version, "others": ["-", "17", '{"orders":{"0":3}}', json.dumps(INITIAL_OFFSET)]}
    for number in (9, 10, 11):
        log_batch(tmp_path, number, {"a": number}, state={"n": number}, committed=number < 11, **log)
    assert [(batch.number, batch.end.progress.positions, batch.is_committed) for batch in of(tmp_path)] == [
        (9, {"a": 9}, True),
        (10, {"a": 10}, True),
        (11, {"a": 11}, False),
    ]
    assert of(tmp_path, "kafka") == of(tmp_path / "none") == []


def test_an_offset_of_a_newer_tidegate_is_an_error(tmp_path):
    log_batch(tmp_path, 0, {"a": 1}, source="s3")
    path = tmp_path / "offsets" / "0"
    path.write_text(re.sub(r'"v": \d+', '"v": 99', path.read_text()))
    with pytest.raises(CheckpointError, match="was written by a newer tidegate"):
        of(tmp_path)


@pytest.mark.parametrize(
    "stored", ["", "v1", "v7\n{}", 'v1\n{"batchWatermarkMs":"x"}\n{}', "v1\n[]\n{}", f"v1\n{'[' * 100_000}\n{{}}"]
)
def test_a_damaged_log_is_named(tmp_path, stored):
    log_batch(tmp_path, 0, {"a": 1}, source="s3")
    (tmp_path / "offsets" / "1").write_text(stored)
    with pytest.raises(CheckpointError, match="offsets/1 is damaged"):
        of(tmp_path)
