"""Servers for development and tests: their Java, their start and their end, and the histories that they hold."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from botocore.exceptions import ClientError
from kafka import KafkaConsumer, TopicPartition

from tests.support.command import PATIENCE_S, await_that
from tidegate.errors import ServerError
from tidegate.servers import KafkaServer, S3Server, java, write_history
from tidegate.servers.history import CODECS
from tidegate.servers.java import find_jars, find_java, spark_jars
from tidegate.servers.process import Sandbox

SMALL = "org.slf4j:slf4j-api:2.0.17"  # has no dependencies


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tidegate" / "maven" / "org.slf4j" / "slf4j-api"


def test_an_unreachable_registry_is_reported_in_one_sentence(cache, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    with pytest.raises(ServerError, match="could not be resolved from Maven Central") as raised:
        find_jars(SMALL, override="SLF4J_LIBS")
    sentence = str(raised.value)
    assert "Connection refused" in sentence
    assert "SLF4J_LIBS" in sentence
    assert "\n" not in sentence
    assert not list(cache.iterdir())


def test_two_at_once_share_one_whole_folder_and_the_next_reuses_it(cache, monkeypatch):
    with ThreadPoolExecutor() as pool:
        folders = {download.result() for download in [pool.submit(find_jars, SMALL, "SLF4J_LIBS") for _ in range(2)]}
    assert folders == {cache / "2.0.17"}
    assert [path.name for path in cache.rglob("*")] == ["2.0.17", "slf4j-api-2.0.17.jar"]

    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # jars in the cache need no Java
    assert {find_jars(SMALL, "SLF4J_LIBS")} == folders


def test_a_jar_with_another_digest_than_ours_is_refused(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(java, "DIGESTS", tmp_path / "jars.sha256")
    java.DIGESTS.write_text(f"{0:064}  slf4j-api-2.0.17.jar\n")
    with pytest.raises(ServerError, match=rf"^slf4j-api-2\.0\.17\.jar of {SMALL} .* has 0{{64}}: .*SLF4J_LIBS"):
        find_jars(SMALL, "SLF4J_LIBS")
    assert not list(cache.iterdir())


def test_a_classifier_names_one_jar_beside_the_others(cache):
    folder = find_jars(f"{SMALL}:sources", "SLF4J_LIBS", transitive=False)
    assert folder == cache / "2.0.17-sources-alone"
    assert [path.name for path in folder.iterdir()] == ["slf4j-api-2.0.17-sources.jar"]


def test_missing_java_is_reported_in_one_sentence(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ServerError, match="Java 17 or newer is needed, as for Spark, but JAVA_HOME=/nowhere holds no"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ServerError, match="the PATH holds no java"):
        find_java()


def test_an_old_java_is_refused(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServerError, match="is Java 8"):
        find_java()


def test_a_jar_that_pyspark_lacks_is_named():
    with pytest.raises(ServerError, match=r"holds no no-such-\*\.jar"):
        spark_jars("no-such-*.jar")


def is_gone(pid):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S607
    return state.stdout.strip()[:1] in ("", "Z")


def is_free(address):
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_children_of_children_end_too(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        process = sandbox.spawn(["sh", "-c", "sleep 60 & echo $!; wait"], sandbox.folder / "log")
        process.wait_until(lambda: process.log.read_text().endswith("\n"), 10)
        grandchild = int(process.log.read_text())
        assert not is_gone(grandchild)
    await_that(lambda: is_gone(grandchild))


def test_a_process_that_ends_early_shows_the_end_of_its_log(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        process = sandbox.spawn(["sh", "-c", "echo no such thing; exit 3"], sandbox.folder / "thing.log")
        with pytest.raises(ServerError, match=r"\(thing\) ended with code 3 .*\nno such thing"):
            process.wait_until(lambda: False, 10)


def test_a_process_that_is_never_ready_meets_the_deadline(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        process = sandbox.spawn(["sleep", "60"], sandbox.folder / "thing.log")
        with pytest.raises(ServerError, match=r"not ready after 0\.1 s; its log is empty"):
            process.wait_until(lambda: False, 0.1)


def test_given_jars_that_are_not_kafkas_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_LIBS", str(tmp_path))
    with pytest.raises(ServerError, match=f"KAFKA_LIBS={tmp_path} must be a folder of jars, but it holds no kafka"):
        KafkaServer().start()


def test_a_broker_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerError, match=r"(?s)its log ends with:.*num\.network\.threads"):
        KafkaServer(properties={"num.network.threads": "none"}).start()
    assert not list(tmp_path.iterdir())


def test_a_user_is_added_once_the_brokers_know_each_mechanism(monkeypatch, tmp_path):
    answers = [["SCRAM-SHA-256", "SCRAM-SHA-512"], ["SCRAM-SHA-256"], []]
    admin = SimpleNamespace(
        alter_user_scram_credentials=lambda credentials: {one.user: None for one in credentials},
        describe_user_scram_credentials=lambda _: {"anna": {"error": None, "credential_infos": answers.pop()}},
    )
    server = KafkaServer(brokers=2)
    monkeypatch.setattr(server, "_admin", lambda: nullcontext(admin))
    with Sandbox() as sandbox:
        server._running = {
            1: sandbox.spawn(["true"], tmp_path / "log"),
            2: sandbox.spawn(["sleep", "60"], tmp_path / "log"),
        }
        server._running[1].wait(60)  # a broker that was killed keeps nobody waiting
        server.add_scram_user("anna", "secret")
    assert not answers


ODD_KEY = "100%/%41/ünï 日本 😀/a+b&c=d?e#f/<\"quoted'>/back\\slash/.hidden"


def test_other_keys_are_refused_and_ours_are_not_in_the_command_line(s3):
    stranger = S3Server(port=int(s3.endpoint.rpartition(":")[2]))
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        stranger.create_bucket("not-mine")
    shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(s3.pids[1])], capture_output=True, check=True).stdout  # noqa: S607
    assert b"s3proxy" in shown
    assert s3.secret_key.encode() not in shown


def test_given_jars_are_used_and_a_given_folder_keeps_the_buckets_whatever_its_name_and_the_locale(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LC_ALL", "C")
    given = tmp_path / "given"
    given.symlink_to(find_jars("org.gaul:s3proxy:4.1.0", override="S3PROXY_LIBS"))
    monkeypatch.setenv("S3PROXY_LIBS", str(given))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "été = #1" / "buckets"
    with S3Server(folder=folder) as first, closing(first.client()) as client:
        bucket = first.create_bucket("kept")
        client.put_object(Bucket="kept", Key=ODD_KEY, Body=b"still here")
        assert (bucket / ODD_KEY).read_bytes() == b"still here"
        (bucket / "laid down").write_bytes(b"")
    with S3Server(folder=folder) as second, closing(second.client()) as client:
        assert second.secret_key != first.secret_key
        assert [entry["Key"] for entry in client.list_objects_v2(Bucket="kept")["Contents"]] == [ODD_KEY, "laid down"]
        assert client.get_object(Bucket="kept", Key=ODD_KEY)["Body"].read() == b"still here"
        client.delete_object(Bucket="kept", Key=ODD_KEY)
        assert not (bucket / ODD_KEY).exists()
    assert not (tmp_path / "cache").exists()


DISORDERED_MS = np.array([5_000, 4_999, 0, 2**41, 7_000, 6_000, 2**40 + 1], np.int64)


def consume(server, topic, count):
    consumer = KafkaConsumer(
        bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): count}
        return list(islice(consumer, count))
    finally:
        consumer.close()


@pytest.mark.parametrize("compression", CODECS)
def test_what_is_written_is_read_back_and_the_same_for_a_seed(kafka, compression):
    topic = f"codec-{compression}"
    # The broker decompresses the records, and stores them without compression.  So its decoders check them, and
    # kafka-python needs no codecs to read them.
    kafka.create_topic(topic, configs={"compression.type": "uncompressed"})
    count = 1000
    times = np.resize(DISORDERED_MS, count)
    for keys in (None, times + 1):
        write_history(
            kafka.bootstrap_servers,
            topic,
            0,
            times,
            value_size=300,
            compression=compression,
            records_per_batch=333,
            seed=3,
            keys=keys,
        )
    records = consume(kafka, topic, 2 * count)
    values = [record.value for record in records]
    assert [record.offset for record in records] == list(range(2 * count))
    assert [record.timestamp for record in records] == 2 * times.tolist()
    assert [record.key for record in records] == [None] * count + [(t + 1).to_bytes(8, "big") for t in times.tolist()]
    assert all(len(value) == 300 and value.endswith(b"." * 150) for value in values)
    assert values[:count] == values[count:]
    assert len(set(values)) == count


def test_a_batch_that_is_too_large_is_refused(kafka):
    kafka.create_topic("too-large", configs={"max.message.bytes": "1000"})
    with pytest.raises(ServerError, match=r"refused a batch of records for too-large-0 \(MessageSizeTooLargeError"):
        write_history(kafka.bootstrap_servers, "too-large", 0, np.zeros(100, np.int64))


def test_wrong_arguments_are_named(kafka):
    kafka.create_topic("one-partition")
    with pytest.raises(
        ServerError, match=r"^compression is 'gzp', but .* none, gzip, snappy, lz4, zstd; did you mean 'gzip'\?$"
    ):
        write_history(kafka.bootstrap_servers, "one-partition", 0, DISORDERED_MS, compression="gzp")
    with pytest.raises(ServerError, match=r"^the topic 'one-partition' has no partition 7$"):
        write_history(kafka.bootstrap_servers, "one-partition", 7, DISORDERED_MS)


SERVE = """
import sys
from tidegate.servers import KafkaServer
with KafkaServer() as server:
    print(server.bootstrap_servers, server.pids[1], flush=True)
    sys.stdin.read()
"""


# The sandbox removes what a server leaves, so one test of a server with several processes is enough.
def test_nothing_is_left_when_the_parent_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        address, pid = parent.stdout.readline().split()
        assert not is_free(address)
        assert list(tmp_path.iterdir())
        parent.kill()
        assert parent.wait(PATIENCE_S) == -signal.SIGKILL
        await_that(lambda: is_gone(int(pid)))
        await_that(lambda: is_free(address))
        await_that(lambda: not list(tmp_path.iterdir()))
