import socket
from itertools import islice

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tidegate.errors import ServerError
from tidegate.servers import KafkaServer


def produce(server, topic, *records):
    producer = KafkaProducer(bootstrap_servers=server.bootstrap_servers)
    try:
        for value, timestamp_ms in records:
            producer.send(topic, value, timestamp_ms=timestamp_ms).get(timeout=30)
    finally:
        producer.close()


def consume(server, topic, count):
    consumer = KafkaConsumer(
        bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return [(record.value, record.timestamp) for record in islice(consumer, count)]
    finally:
        consumer.close()


def listens(server):
    host, port = server.bootstrap_servers.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_a_killed_broker_comes_back_with_its_data_and_port(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with KafkaServer() as server:
        address, pids = server.bootstrap_servers, server.pids
        server.create_topic("survives")
        produce(server, "survives", (b"before", 1000))
        server.kill()
        assert not server.pids
        assert not listens(server)
        server.restart()
        assert server.bootstrap_servers == address
        assert server.pids != pids
        assert consume(server, "survives", 1) == [(b"before", 1000)]
    server.stop()
    assert not server.pids
    assert not listens(server)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def pair():
    with KafkaServer(brokers=2) as server:
        yield server


def test_several_brokers_share_the_partitions_and_one_may_die(pair):
    pair.create_topic("shared", partitions=4)
    consumer = KafkaConsumer(bootstrap_servers=pair.bootstrap_servers)
    try:
        consumer.partitions_for_topic("shared")
        assert {broker.node_id for broker in consumer._client.cluster.brokers()} == {1, 2}
    finally:
        consumer.close()
    pair.kill(2)
    assert set(pair.pids) == {1}
    pair.restart(2)
    assert set(pair.pids) == {1, 2}


def test_given_jars_that_are_not_kafkas_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_LIBS", str(tmp_path))
    with pytest.raises(ServerError, match=f"KAFKA_LIBS={tmp_path} must be a folder of jars, but it holds no kafka"):
        KafkaServer().start()


def test_a_broker_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerError, match=r"(?s)its log ends with:.*num\.network\.threads"):
        KafkaServer(properties={"num.network.threads": "none"}).start()
    assert not list(tmp_path.iterdir())
