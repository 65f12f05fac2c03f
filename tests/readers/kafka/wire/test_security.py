"""TLS and logins, with a broker that requires them."""

import logging
from dataclasses import replace

import pytest

from tests.readers.kafka.wire.security_matrix import PASSWORD, USER, WRONG
from tests.support.kafka.brokers import (
    AUTHENTICATE,
    FaultyBroker,
    hand_on,
    hand_on_with_the_close,
    is_refusal,
)
from tests.support.kafka.lab import Lab, Record, encode
from tidegate.errors import ConnectorError, DeadlineError
from tidegate.readers.kafka.client import LATEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.watch import WatchedEnd
from tidegate.sources.kafka.java.properties import connection_config

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def properties(at, protocol, mechanism="PLAIN", password=PASSWORD):
    login = {"sasl.mechanism": mechanism, "sasl.plain.username": USER, "sasl.plain.password": password}
    trust = {"ssl.truststore.location": str(at.authority.certificate)}
    needed = (login if protocol.startswith("SASL") else {}) | (trust if protocol.endswith("SSL") else {})
    return {"security.protocol": protocol, **needed}


def refusal(servers, properties):
    """Return the sentence of a refusal, without the server's name."""
    with KafkaClient(connection_config(servers, properties)) as client, pytest.raises(ConnectorError) as raised:
        client.partitions()
    assert not isinstance(raised.value, DeadlineError)
    refused, clause, why = str(raised.value).partition(f"the Kafka broker {servers} refused the connection: ")
    assert (refused, bool(clause)) == ("", True), str(raised.value)
    assert "\n" not in why
    return why


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_fetch_session_tells_of_records_over_tls_and_after_a_login(at, protocol):
    lab = Lab(at.kafka)
    topic = lab.new_topic(partitions=3)
    at.kafka.allow(USER, "READ", topic)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    with KafkaClient(connection_config(at.servers(protocol), properties(at, protocol))) as client:
        for number in range(3):
            ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
            client.watch({partition: WatchedEnd(end, end) for partition, (end, _) in ends.items()})
            assert not client.wait(0.2)
            lab.append(topic, encode([Record(value=b"v")]), partition=number)
            assert client.wait(30)


def test_the_alert_of_a_broker_that_wants_a_certificate_is_always_heard(at):
    for _ in range(5):
        why = refusal(at.servers("MTLS"), properties(at, "SSL"))
        assert "alert" in why
        assert why.endswith("; look at kafka.ssl.keystore.* and kafka.security.protocol")


@pytest.mark.parametrize(
    ("given", "spoken"),
    [
        ("PLAINTEXT", "SSL"),
        ("PLAINTEXT", "SASL_PLAINTEXT"),
        ("SSL", "PLAINTEXT"),
        ("SSL", "SASL_SSL"),
        ("SASL_PLAINTEXT", "PLAINTEXT"),
    ],
)
def test_another_protocol_than_the_listener_s_is_explained_by_the_option(at, given, spoken):
    config = replace(connection_config(at.servers(spoken), properties(at, given)), deadline_s=1)
    with KafkaClient(config) as client, pytest.raises(ConnectorError, match=r"; look at kafka\.security\.protocol"):
        client.partitions()


def slow_refusal(broker, client, frame):
    if is_refusal(frame):
        broker.over.wait(2)
    hand_on_with_the_close(broker, client, frame)


@pytest.mark.parametrize("answer", [hand_on_with_the_close, slow_refusal])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_refusal_is_heard_that_comes_late_or_in_one_packet_with_the_close_and_never_asked_for_again(
    at, mechanism, answer
):
    with FaultyBroker(at.servers("SASL_PLAINTEXT"), answer) as broker:
        config = connection_config(broker.address, properties(at, "SASL_PLAINTEXT", mechanism, WRONG))
        with KafkaClient(config) as client:
            messages = set()
            for _ in range(3):
                with pytest.raises(ConnectorError, match="Authentication failed") as raised:
                    client.partitions()
                messages.add(str(raised.value))
        (message,) = messages
        assert WRONG not in message
        assert message.endswith("; look at kafka.sasl.*")
        assert broker.asked.count(AUTHENTICATE) == (1 if mechanism == "PLAIN" else 2)


@pytest.mark.parametrize("answer", [hand_on, hand_on_with_the_close])
def test_a_mechanism_that_is_not_offered_is_reported_at_once_with_those_that_are(at, answer):
    with FaultyBroker(at.servers("SASL_PLAINTEXT"), answer) as broker:
        why = refusal(broker.address, properties(at, "SASL_PLAINTEXT", "GSSAPI"))
    assert "it offers " in why
    assert all(mechanism in why for mechanism in MECHANISMS)
    assert why.endswith("; look at kafka.sasl.mechanism")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("password", [PASSWORD, WRONG])
def test_the_log_of_kafka_python_shows_no_login(at, caplog, mechanism, password):
    assert logging.getLogger("kafka").level == logging.NOTSET
    caplog.set_level(1)
    config = connection_config(at.servers("SASL_PLAINTEXT"), properties(at, "SASL_PLAINTEXT", mechanism, password))
    with KafkaClient(config) as client:
        if password == PASSWORD:
            client.partitions()
        else:
            with pytest.raises(ConnectorError):
                client.partitions()
    assert not [said for said in caplog.records if said.name.startswith("kafka") and said.levelno >= logging.WARNING]
    assert password not in caplog.text
    assert "auth_bytes" not in caplog.text
    assert "n=me,r=" not in caplog.text
