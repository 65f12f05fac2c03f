"""The client: answers that are none, and its knowledge of its cluster, after lost connections and after a rest."""

import socket
import time
import traceback
from types import SimpleNamespace

import pytest

from tests.support.kafka.lab import Record, encode
from tests.support.servers.stub import Answering
from tidegate.errors import (
    ConnectorError,
    CorruptDataError,
    DeadlineError,
    OptionError,
    PositionGoneError,
    RefusedError,
    TransientError,
)
from tidegate.readers.kafka import client as kafka_client
from tidegate.readers.kafka import cluster as kafka_cluster
from tidegate.readers.kafka import watch
from tidegate.readers.kafka.client import EARLIEST, LATEST, MAX_TIMESTAMP, KafkaClient
from tidegate.readers.kafka.cluster import KafkaCluster, LeaderCall
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.peek import peek
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.readers.retry import Deadline

SECRET = "swordfish"  # noqa: S105 - no error may show it


def test_partitions_are_asked_anew_and_topics_never_created(lab):
    topic = lab.new_topic(partitions=2)
    with KafkaClient(lab.config()) as client:
        assert client.partitions([topic, "missing"]) == {topic: (0, 1)}
        everything = client.partitions()
        assert everything[topic] == (0, 1)
        assert not any(name.startswith("__") for name in everything)
        lab.kafka.add_partitions(topic, 3)
        assert client.partitions([topic]) == {topic: (0, 1, 2)}
        assert client.partitions([]) == {}
        assert "missing" not in client.partitions()


def test_offsets_by_time_and_by_name(lab):
    topic = lab.new_topic(partitions=2)
    full, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    times = [1000, 3000, 2000, 5000, 4000]
    lab.append(topic, encode([Record(time_ms) for time_ms in times]))
    with KafkaClient(lab.config()) as client:
        assert client.list_offsets({}) == {}
        assert client.list_offsets({full: LATEST, empty: LATEST}) == {full: (5, -1), empty: (0, -1)}
        assert client.list_offsets({full: EARLIEST, empty: EARLIEST}) == {full: (0, -1), empty: (0, -1)}
        assert client.list_offsets({full: MAX_TIMESTAMP, empty: MAX_TIMESTAMP}) == {full: (3, 5000), empty: (-1, -1)}
        assert client.list_offsets({full: 1500, empty: 0}) == {full: (1, 3000), empty: (-1, -1)}
        assert client.list_offsets({full: 5001}) == {full: (-1, -1)}


def test_peeks_see_the_record_at_a_position_also_inside_a_compressed_batch(lab):
    topic = lab.new_topic(partitions=12)
    partitions = [TopicPartition(topic, number) for number in range(12)]
    for partition in partitions:
        batch = encode([Record(partition.partition * 100 + n, value=b"v" * 20_000) for n in range(5)], "lz4")
        lab.append(topic, batch, partition=partition.partition)
    with KafkaClient(lab.config(fetch_max_bytes=1000)) as client:
        for position in range(5):
            heads = peek(client, dict.fromkeys(partitions, position))
            assert heads == {partition: (position, partition.partition * 100 + position) for partition in partitions}
        assert peek(client, dict.fromkeys(partitions, 5)) == dict.fromkeys(partitions)
        assert peek(client, {}) == {}


def test_peeks_at_many_partitions_share_responses_as_far_as_these_have_room(lab, monkeypatch):
    responses = []
    read = kafka_client.fetched_partitions
    monkeypatch.setattr(kafka_client, "fetched_partitions", lambda *how: responses.append(how) or read(*how))
    topic = lab.new_topic(partitions=24)
    partitions = [TopicPartition(topic, number) for number in range(24)]
    heads = {partition: (0, partition.partition) for partition in partitions}
    for partition in partitions:
        lab.append(topic, encode([Record(partition.partition, value=b"v" * 50_000)]), partition=partition.partition)
    with KafkaClient(lab.config(fetch_max_bytes=256 << 10)) as client:
        assert peek(client, dict.fromkeys(partitions, 0)) == heads
        assert len(responses) == 24 / 4
        responses.clear()
        # The first request has too little room: only its first partition gets a batch.
        assert peek(client, dict.fromkeys(partitions, 0), useful_bytes=4 << 10) == heads
        assert len(responses) <= 1 + 24 / 4


@pytest.mark.parametrize("position", [-1, 4])
def test_a_peek_outside_the_log_is_data_loss(lab, position):
    topic = lab.new_topic()
    lab.append(topic, encode([Record()] * 3))
    with KafkaClient(lab.config()) as client, pytest.raises(PositionGoneError) as raised:
        peek(client, {TopicPartition(topic, 0): position})
    assert str(raised.value) == f"position {position} of {topic}-0 does not exist: its log reaches from 0 to 3"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no.such.host.invalid:9092"])
def test_a_wrong_server_is_reported_in_one_sentence_within_the_deadline(address):
    config = KafkaConnectionConfig(address, {"sasl_plain_password": SECRET}, deadline_s=60)
    with KafkaClient(config) as client, pytest.raises(DeadlineError) as raised:
        client.partitions(deadline_s=0.5)
    assert str(raised.value).startswith(f"cannot reach Kafka at {address} to list partitions within 0.5 s: ")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_server_that_never_answers_does_not_hang_the_client(protocol):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        config = KafkaConnectionConfig(address, {"security_protocol": protocol}, deadline_s=0.5)
        with KafkaClient(config) as client, pytest.raises(DeadlineError, match=f"{address}.* within 0.5 s"):
            client.partitions()


def test_an_address_that_is_away_does_not_hide_one_that_is_there(lab):
    with KafkaClient(KafkaConnectionConfig(f"127.0.0.1:1, {lab.kafka.bootstrap_servers}", deadline_s=5)) as client:
        assert isinstance(client.partitions(), dict)


def test_a_topic_is_gone_after_a_short_grace_and_after_an_outage_only_at_the_deadline(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(kafka_cluster.time, "monotonic", lambda: now)
    absences = kafka_cluster._Absences(60)
    absences.observe(["orders", "others"], ["others"])
    assert absences.is_absent("orders")
    assert not absences.is_absent("others")
    now += 0.9
    assert not absences.is_over("orders", is_new=True)
    now += 4
    assert absences.is_over("orders", is_new=True)
    assert not absences.is_over("orders")
    now += 0.2
    assert absences.is_over("orders")
    absences.begin_anew()
    now += 10
    absences.observe(["orders"], [])
    now += 59
    assert not absences.is_over("orders")
    now += 2
    assert absences.is_over("orders")
    now += 60
    absences.observe(["new"], [])
    now += 6
    assert absences.is_over("new")


def test_leaders_that_do_not_know_a_partition_yet_are_asked_until_the_deadline(lab, monkeypatch):
    topic = lab.new_topic()
    now, decode = [0.0], kafka_client.decode_response

    def sleep(seconds):
        now[0] += seconds

    def deadline(_, purpose, seconds=None):
        return Deadline(purpose, seconds or 60, clock=lambda: now[0], sleep=sleep)

    def unknown_at_first(sent, frame):
        response = decode(sent, frame)
        if now[0] < 30:
            response.topics[0].partitions[0].error_code = kafka_cluster.UNKNOWN_TOPIC
        return response

    monkeypatch.setattr(KafkaCluster, "deadline", deadline)
    monkeypatch.setattr(kafka_client, "decode_response", unknown_at_first)
    with KafkaClient(lab.config()) as client:
        at = TopicPartition(topic, 0)
        assert client.list_offsets({at: LATEST}) == {at: (0, -1)}
    assert now[0] >= 30


def test_an_address_that_a_broker_has_left_is_tried_last(lab, monkeypatch):
    tried = []

    def connect(address, properties, timeout_s):
        tried.append(address)
        return BrokerConnection(address, properties, timeout_s)

    monkeypatch.setattr(kafka_cluster, "BrokerConnection", connect)
    old = "127.0.0.1:1"
    with KafkaClient(lab.config()) as client:
        client.partitions()
        connections = client._cluster._connections
        ((_, connection),) = connections.items()
        connections.clear()
        connections[old] = connection
        connection.close()
        for _ in range(5):
            client.partitions()
    assert tried.count(old) == 1


def test_what_kafka_python_cannot_read_is_reported_without_the_password():
    config = KafkaConnectionConfig("localhost:abc", {"sasl_plain_password": SECRET}, deadline_s=1)
    with KafkaClient(config) as client, pytest.raises(ConnectorError, match="invalid literal") as raised:
        client.partitions()
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_response_beyond_the_limit_names_the_option_that_raises_it(lab):
    topic = lab.new_topic()
    lab.append(topic, encode([Record(value=b"v" * 200_000)]))
    at = TopicPartition(topic, 0)
    limited = {"receive_message_max_bytes": 100_000}
    with (
        KafkaClient(lab.config(properties=limited)) as client,
        pytest.raises(ConnectorError, match=r"bytes, but at most 100000 are taken; look at kafka.receive.message.max"),
    ):
        peek(client, {at: 0})
    with KafkaClient(lab.config(properties={"receive_message_max_bytes": 300_000})) as client:
        assert peek(client, {at: 0}) == {at: (0, 1000)}


def test_an_answer_that_is_no_answer_is_reported_at_once():
    for garbage in (
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\0\0\0\x08\0\0\0\x01\xff\xff\xff\xff",
    ):
        with Answering(garbage) as there:
            config = KafkaConnectionConfig(there.address, deadline_s=20)
            with KafkaClient(config) as client, pytest.raises(ConnectorError) as raised:
                client.partitions()
        assert not isinstance(raised.value, DeadlineError)
        assert str(raised.value).startswith(f"the Kafka broker {there.address} refused the connection: ")
        assert str(raised.value).endswith("; look at kafka.security.protocol and kafka.bootstrap.servers")


def test_a_close_is_reported_though_silence_follows_it():
    sentence = r": it closed the connection; look at kafka.security.protocol$"
    with Answering(b"", b"", b"", None) as there:
        config = KafkaConnectionConfig(there.address, deadline_s=1)
        with KafkaClient(config) as client, pytest.raises(DeadlineError, match=sentence):
            client.partitions()


@pytest.mark.parametrize("topic", ["orders", "orders-2024", "a.b_c-"])
def test_a_split_names_its_partition(topic):
    at = TopicPartition(topic, 12)
    assert at.split_id == f"{topic}-12"
    assert TopicPartition.of(at.split_id) == at


@pytest.mark.parametrize("name", ["", "orders", "-1", "orders-", "orders-x", "orders-²"])
def test_what_names_no_partition_is_refused(name):
    with pytest.raises(OptionError, match="names no Kafka partition"):
        TopicPartition.of(name)


@pytest.mark.parametrize("topics", [b"\x00", b"\x02\x02t\x00\x00"], ids=["topics", "partitions"])
def test_a_null_array_in_the_answer_is_told_in_one_sentence(lab, monkeypatch, topics):
    topic, receive = lab.new_topic(), BrokerConnection.receive
    with KafkaClient(lab.config()) as client:
        client.partitions([topic])
        client.list_offsets({TopicPartition(topic, 0): LATEST})

        def with_null(connection, request_id, timeout_s):
            frame = receive(connection, request_id, timeout_s)
            return memoryview(bytes(frame[:4]) + bytes(5) + topics + b"\x00")

        monkeypatch.setattr(BrokerConnection, "receive", with_null)
        sentence = r"^the answer to Kafka's ListOffsetsRequest cannot be decoded$"
        with pytest.raises(CorruptDataError, match=sentence):
            client.list_offsets({TopicPartition(topic, 0): LATEST})


ADDRESS = "here:9092"


def test_a_request_that_fails_on_a_lost_connection_leaves_the_next_one_alone():
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS))
    lost, reopened = (SimpleNamespace(address=ADDRESS, is_closed=closed) for closed in (True, False))
    cluster._connections[ADDRESS] = reopened
    cluster.lost(lost)
    assert cluster._connections == {ADDRESS: reopened}
    reopened.is_closed = True
    cluster.lost(reopened)
    assert cluster._connections == {}


def test_a_topic_that_was_absent_before_a_rest_may_come_after_it(monkeypatch):
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS))
    began = time.monotonic()
    cluster._absences.observe(["orders"], [])
    monkeypatch.setattr(time, "monotonic", lambda: began + 600)
    assert cluster.doubt([], ["orders"]) is None
    cluster.close()
    cluster._absences.observe(["orders"], [])
    assert "orders" in str(cluster.doubt([], ["orders"]))


def test_a_watch_that_is_refused_logs_in_once(monkeypatch):
    config, attempts = KafkaConnectionConfig(ADDRESS), []

    def refused(*_):
        attempts.append(1)
        raise RefusedError("the password has changed")

    monkeypatch.setattr(watch, "BrokerConnection", refused)
    cluster = KafkaCluster(config)
    monkeypatch.setattr(cluster, "leaders", lambda partitions, _: ({ADDRESS: [*partitions]}, {}))
    watching = watch.Watch(cluster, config)
    for end in range(3):
        watching.begin({TopicPartition("orders", 0): end}, {})
        assert watching.wait(0)
    assert len(attempts) == 1


def test_leaders_are_asked_for_again_after_metadata_max_age_ms(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS, metadata_max_age_s=5))
    asked = []

    def refresh(topics, *_):
        asked.append(topics)
        cluster._leaders[TopicPartition("orders", 0)] = ADDRESS

    monkeypatch.setattr(cluster, "_refresh_leaders", refresh)
    for later_s, times in ((0, 1), (4.9, 1), (5.1, 2), (9.9, 2), (10.3, 3)):
        now[0] = 100 + later_s
        led, _ = cluster.leaders([TopicPartition("orders", 0)], cluster.deadline("test"))
        assert led == {ADDRESS: [TopicPartition("orders", 0)]}
        assert len(asked) == times


class EndsFirst:
    """A connection to a broker that ends the first ones instead of answering, for these reasons."""

    def __init__(self, *reasons):
        self.address, self.is_closed = ADDRESS, False
        self._reasons = [*reasons]

    def send(self, *_):
        self.is_closed = False
        return 1

    def receive(self, *_):
        if not self._reasons:
            return memoryview(b"")
        self.is_closed = True
        raise TransientError("lost the Kafka broker") from self._reasons.pop()


@pytest.mark.parametrize(
    ("reasons", "answers"),
    [
        ([ConnectionResetError()], {TopicPartition("orders", 0): 7}),
        ([ConnectionResetError()] * 2, {}),
        ([TimeoutError()], {}),
    ],
    ids=["ended", "ended twice", "silent"],
)
def test_a_call_without_patience_is_repeated_once_if_the_broker_ends_its_connection(monkeypatch, reasons, answers):
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS))
    cluster.patience_s = 0.0
    partition, connection = TopicPartition("orders", 0), EndsFirst(*reasons)
    monkeypatch.setattr(cluster, "leaders", lambda partitions, *_, **__: ({ADDRESS: [*partitions]}, {}))
    monkeypatch.setattr(cluster, "connection", lambda *_: connection)
    monkeypatch.setattr(Deadline, "pause", lambda *_: None)
    call = LeaderCall(cluster, "test", [partition], list, lambda *_: iter([(partition, 0, 7)]))
    assert call.reached()[0] == answers
