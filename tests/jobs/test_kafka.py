"""The development Kafka on the command line."""

import os
import signal
import socket

from kafka import KafkaAdminClient

from tests.support.command import finish, started
from tidegate.jobs.kafka import _create
from tidegate.servers.server import free_ports


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
