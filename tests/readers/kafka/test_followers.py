"""Followers in the client's rack serve it (KIP-392); if they cannot, the leader does."""

import pytest
from kafka.protocol.consumer import FetchRequest

from tests.support.kafka.lab import Lab, Record, encode
from tests.support.logs import Clock
from tidegate.alignment.splits import SplitRange
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.client import idle_clients
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.fetch import PreferredReplicas
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.servers import KafkaServer
from tidegate.sources.kafka.java.properties import connection_config

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RECORDS = 500


@pytest.fixture(scope="module")
def lab():
    with KafkaServer(brokers=2, properties={"replica.selector.class": SELECTOR}) as server:
        yield Lab(server)


@pytest.fixture
def asked(monkeypatch):
    """Return a list that receives the brokers that send the responses to fetches, in order."""
    addresses = []
    send = BrokerConnection.send

    def sent(connection, request, timeout_s):
        if isinstance(request, FetchRequest):
            addresses.append(connection.address)
        return send(connection, request, timeout_s)

    monkeypatch.setattr(BrokerConnection, "send", sent)
    return addresses


def topic_on_both(lab):
    name = "on-both"
    lab.kafka.create_topic(name, replicas=(1, 2))
    lab.append(name, *(encode([Record(value=b"x" * 1000)] * 50) for _ in range(RECORDS // 50)))
    return name


def test_records_come_from_the_follower_in_the_client_s_rack(lab, asked):
    leader, follower = lab.kafka.bootstrap_servers.split(",")
    topic = topic_on_both(lab)

    def read(rack):
        asked.clear()
        properties = {"fetch.max.bytes": "65536"} | ({} if rack is None else {"client.rack": rack})
        reader = KafkaSplitReader(connection_config(f"{leader},{follower}", properties))
        rows = sum(batch.num_rows for batch in reader.read(ReadTask((SplitRange(f"{topic}-0", 0, RECORDS),))))
        idle_clients.close()
        return rows

    assert read(None) == RECORDS
    assert set(asked) == {leader}
    assert read("rack-1") == RECORDS
    assert set(asked) == {leader}
    assert read("rack-2") == RECORDS
    assert asked[0] == leader  # the leader names the follower
    assert set(asked[1:]) == {follower}
    lab.kafka.kill(2)
    assert read("rack-2") == RECORDS
    assert set(asked) == {leader}


def test_a_follower_is_asked_until_its_time_is_over_or_it_fails():
    clock, partition = Clock(), TopicPartition("orders", 0)
    replicas = PreferredReplicas(10, clock)
    assert replicas.of(partition) is None
    assert not replicas.avoid(partition)  # the leader, not the follower, did not know a position
    assert not replicas.is_avoided(partition)
    replicas.prefer(partition, 2)
    assert replicas.of(partition) == 2
    replicas.forget(partition)
    assert replicas.of(partition) is None
    replicas.prefer(partition, 2)
    assert replicas.avoid(partition)
    assert replicas.of(partition) is None
    replicas.forget(partition)
    assert replicas.is_avoided(partition)
    clock.now = 10
    assert not replicas.is_avoided(partition)
    replicas.prefer(partition, 3)
    clock.now = 20
    assert replicas.of(partition) is None
