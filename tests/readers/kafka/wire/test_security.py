"""TLS and logins, with a broker that requires them, and the errors of those that do not work."""

import base64
import hashlib
import hmac
import logging
import ssl
from dataclasses import replace

import pytest

from tests.readers.kafka.wire import security_matrix as matrix
from tests.readers.kafka.wire.security_matrix import PASSWORD, USER, WRONG
from tests.support.kafka.brokers import (
    AUTHENTICATE,
    FaultyBroker,
    hand_on,
    hand_on_with_the_close,
    is_refusal,
)
from tests.support.kafka.lab import Lab, Record, encode
from tests.support.servers.tokens import CLIENT_SECRET, STORE_PASSWORD, Authority
from tests.support.streams import new_topic
from tidegate import KafkaSource, preview
from tidegate.errors import ConnectorError, DeadlineError, OptionError
from tidegate.jobs.demo.run import skewed_history
from tidegate.readers.kafka.client import LATEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.watch import WatchedEnd
from tidegate.readers.kafka.wire.login import ScramMechanism, WeakLoginError
from tidegate.readers.kafka.wire.tls import tls_context
from tidegate.sources.kafka.java.properties import connection_config

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def properties(secured, protocol, mechanism="PLAIN", password=PASSWORD):
    login = {"sasl.mechanism": mechanism, "sasl.plain.username": USER, "sasl.plain.password": password}
    trust = {"ssl.truststore.location": str(secured.authority.certificate)}
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
def test_a_fetch_session_tells_of_records_over_tls_and_after_a_login(secured, protocol):
    lab = Lab(secured.kafka)
    topic = lab.new_topic(partitions=3)
    secured.kafka.allow(USER, "READ", topic)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    with KafkaClient(connection_config(secured.servers(protocol), properties(secured, protocol))) as client:
        for number in range(3):
            ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
            client.watch({partition: WatchedEnd(end, end) for partition, (end, _) in ends.items()})
            assert not client.wait(0.2)
            lab.append(topic, encode([Record(value=b"v")]), partition=number)
            assert client.wait(30)


def test_the_alert_of_a_broker_that_wants_a_certificate_is_always_heard(secured):
    for _ in range(5):
        why = refusal(secured.servers("MTLS"), properties(secured, "SSL"))
        assert "alert" in why
        assert why.endswith("; look at kafka.ssl.keystore.* and kafka.security.protocol")


@pytest.mark.parametrize(
    ("given", "spoken"),
    [
        ("PLAINTEXT", "SSL"),
        ("SSL", "SASL_SSL"),
        ("SASL_PLAINTEXT", "PLAINTEXT"),
    ],
)
def test_another_protocol_than_the_listener_s_is_explained_by_the_option(secured, given, spoken):
    config = replace(connection_config(secured.servers(spoken), properties(secured, given)), deadline_s=1)
    with KafkaClient(config) as client, pytest.raises(ConnectorError, match=r"; look at kafka\.security\.protocol"):
        client.partitions()


def slow_refusal(broker, client, frame):
    if is_refusal(frame):
        broker.over.wait(2)
    hand_on_with_the_close(broker, client, frame)


@pytest.mark.parametrize("answer", [hand_on_with_the_close, slow_refusal])
@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_a_refusal_is_heard_that_comes_late_or_in_one_packet_with_the_close_and_never_asked_for_again(
    secured, mechanism, answer
):
    with FaultyBroker(secured.servers("SASL_PLAINTEXT"), answer) as broker:
        config = connection_config(broker.address, properties(secured, "SASL_PLAINTEXT", mechanism, WRONG))
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
def test_a_mechanism_that_is_not_offered_is_reported_at_once_with_those_that_are(secured, answer):
    with FaultyBroker(secured.servers("SASL_PLAINTEXT"), answer) as broker:
        why = refusal(broker.address, properties(secured, "SASL_PLAINTEXT", "GSSAPI"))
    assert "it offers " in why
    assert all(mechanism in why for mechanism in MECHANISMS)
    assert why.endswith("; look at kafka.sasl.mechanism")


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
@pytest.mark.parametrize("password", [PASSWORD, WRONG])
def test_the_log_of_kafka_python_shows_no_login(secured, caplog, mechanism, password):
    assert logging.getLogger("kafka").level == logging.NOTSET
    caplog.set_level(1)
    config = connection_config(
        secured.servers("SASL_PLAINTEXT"), properties(secured, "SASL_PLAINTEXT", mechanism, password)
    )
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


def mechanism(user="user", **more):
    login = {"sasl_plain_username": user, "sasl_plain_password": "pencil", "sasl_mechanism": "SCRAM-SHA-256"}
    return ScramMechanism(**login, **more)


def test_names_with_signs_of_the_messages_are_escaped_and_signed_so():
    dialogue = mechanism("a,b=c", sasl_delegation_token=True)
    first = dialogue.auth_bytes()
    nonce = first.split(b"r=")[1].split(b",")[0]
    assert first == b"n,,n=a=2Cb=3Dc,r=" + nonce + b",tokenauth=true"
    server = b"r=" + nonce + b"more,s=" + base64.b64encode(b"salt") + b",i=4096"
    dialogue.receive(server)
    last = dialogue.auth_bytes()
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signed = first[3:] + b"," + server + b"," + last.rpartition(b",p=")[0]
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    assert last.endswith(b",p=" + base64.b64encode(proof))


def test_too_few_iterations_are_refused_before_anything_is_sent():
    dialogue = mechanism()
    nonce = dialogue.auth_bytes().split(b"r=")[1]
    with pytest.raises(WeakLoginError, match="asks for 4095 iterations of SCRAM, and at least 4096 are safe"):
        dialogue.receive(b"r=" + nonce + b"x,s=c2FsdA==,i=4095")


SECRET = "hunter2"  # noqa: S105 - the password of a key that lives for seconds


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def context(**properties):
    return tls_context({"security_protocol": "SSL", **{name: str(value) for name, value in properties.items()}})


def test_without_tls_no_file_is_read():
    assert tls_context({"ssl_truststore_location": "no-such.pem"}) is None
    assert tls_context({"security_protocol": "SASL_PLAINTEXT"}) is None


def test_names_are_checked_unless_said_otherwise():
    checked = tls_context({"security_protocol": "SASL_SSL"})
    assert checked.check_hostname
    assert checked.verify_mode == ssl.CERT_REQUIRED
    assert checked.minimum_version == ssl.TLSVersion.TLSv1_2
    older = tls_context({"security_protocol": "SSL", "ssl_enabled_protocols": ("TLSv1.2",)})
    assert older.maximum_version == ssl.TLSVersion.TLSv1_2
    unchecked = tls_context({"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": ""})
    assert not unchecked.check_hostname
    assert unchecked.verify_mode == ssl.CERT_REQUIRED


def test_an_encrypted_key_opens_with_its_password_alone(authority):
    file = authority.issue("encrypted", password=SECRET)
    option = f"the option 'kafka.ssl.keystore.location' is '{file}', whose key"
    assert context(ssl_keystore_location=file, ssl_key_password=SECRET) is not None
    for wrong, sentence in (
        ({}, f"{option} is encrypted, but 'kafka.ssl.key.password' is missing"),
        ({"ssl_key_password": "swordfish"}, f"{option} does not open with 'kafka.ssl.key.password'"),
    ):
        with pytest.raises(OptionError) as raised:
            context(ssl_keystore_location=file, **wrong)
        assert str(raised.value) == sentence


def test_a_key_of_another_certificate_is_refused(authority, tmp_path):
    texts = [authority.issue(name).read_text().partition("-----BEGIN CERT") for name in ("one", "another")]
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(texts[0][0] + "".join(texts[1][1:]))
    with pytest.raises(OptionError, match=r"'kafka.ssl.keystore.location' is .*, whose key is not that of its certifi"):
        context(ssl_keystore_location=mixed)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("truststore.location", "is not a JKS, PKCS12 or PEM store|holds no certificate"),
        ("keystore.location", "is not a JKS, PKCS12 or PEM store|holds no private key"),
    ],
)
@pytest.mark.parametrize("content", ["", "no certificate", "-----BEGIN X-----\nAA==\n-----END X-----\n"])
def test_a_file_that_is_not_what_it_should_be_is_named_with_its_option(tmp_path, name, reason, content):
    file = tmp_path / "file.pem"
    file.write_text(content)
    with pytest.raises(OptionError, match=rf"^the option 'kafka.ssl.{name}' is '{file}', which ({reason})$"):
        context(**{f"ssl_{name.replace('.', '_')}": file})


def test_a_file_of_java_is_all_that_a_query_of_spark_needs(secured, spark, tmp_path):
    login = next(case for case in matrix.cases(secured) if case.title == "SCRAM-SHA-512").properties
    store = {"ssl.truststore.location": str(secured.trusted["JKS"]), "ssl.truststore.password": STORE_PASSWORD}
    servers = secured.kafka.servers_of("SASL_SSL")
    settings = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL", **login, **store, "group.id": "reports"}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    reader = spark.read.format("tidegate_kafka").option("kafkaProperties", str(file))
    assert reader.load(subscribe=matrix.READABLE).count() == matrix.ROWS
    with pytest.raises(Exception, match=r"TopicAuthorizationFailedError .* Describe and Read on the topic") as raised:
        reader.load(subscribe=matrix.HIDDEN).count()
    assert matrix.PASSWORD not in str(raised.value)


def test_the_right_to_read_a_topic_is_enough_for_a_preview(secured):
    topic = new_topic(secured.kafka, *skewed_history(330))
    servers, login = secured.servers("SASL_PLAINTEXT"), properties(secured, "SASL_PLAINTEXT")
    source = KafkaSource(bootstrap_servers=servers, subscribe=[topic], kafka=login)
    with pytest.raises(ConnectorError, match=r"(?i)authoriz"):
        preview(source)
    secured.kafka.allow(USER, "READ", topic)
    assert preview(source).rows == 330


def test_every_row_of_the_matrix_comes_out_as_documented(secured):
    outcomes = [matrix.outcome(secured, case) for case in matrix.cases(secured)]
    for one in outcomes:
        refusal = one.case.refusal or ""
        assert one.rows == (0 if refusal else matrix.ROWS), one
        assert refusal in one.sentence, one
        assert not any(secret in one.sentence for secret in (matrix.PASSWORD, matrix.WRONG, CLIENT_SECRET)), one
        assert "\n" not in one.sentence, one
    documented = matrix.PAGE.read_text().partition(matrix.BEGIN)[2].partition(matrix.END)[0]
    assert documented.strip() == matrix.table(outcomes).strip(), "python -m tests.readers.kafka.wire.security_matrix"
