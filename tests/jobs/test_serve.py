"""The development Kafka on the command line."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.command import await_while_running, finish, started


def processes_in(folder):
    """Return the processes that have a folder in their command line."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _content(path)]


def _content(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def test_it_serves_until_it_is_told_to_end_and_leaves_nothing(tmp_path):
    from kafka import KafkaAdminClient

    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with started("kafka", "--topic", "orders:3", "--topic", "payments", env=environment) as process:
        servers = process.stdout.readline().strip()
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            topics = {t["name"]: len(t["partitions"]) for t in admin.describe_topics(["orders", "payments"])}
        assert topics == {"orders": 3, "payments": 1}
        assert processes_in(tmp_path)
        process.send_signal(signal.SIGTERM)
        code, output, errors = finish(process)
    assert (code, output) == (0, "")
    assert errors.splitlines()[-1] == "Kafka has ended."
    assert not processes_in(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_keeps_topics_for_the_next_start(tmp_path):
    for _ in range(2):
        with started("kafka", "--topic", "orders", "--folder", tmp_path / "data") as process:
            await_while_running((tmp_path / "data" / "broker-1").exists, process)
            assert process.stdout.readline().startswith("127.0.0.1:")
            process.send_signal(signal.SIGINT)
            code, output, errors = finish(process)
        assert (code, output) == (0, "")
        assert errors.splitlines()[-1] == "Kafka has ended."
        assert not processes_in(tmp_path)


@pytest.mark.parametrize("server", ["kafka", "s3"])
def test_a_folder_that_cannot_be_written_is_one_sentence(server, tmp_path):
    (tmp_path / "file").touch()
    with started(server, "--folder", tmp_path / "file" / "data") as process:
        code, output, errors = finish(process)
    assert (code, output) == (1, "")
    assert errors == (f"tidegate: --folder is '{tmp_path}/file/data', where nothing can be written: Not a directory\n")
