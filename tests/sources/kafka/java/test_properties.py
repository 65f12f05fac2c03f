"""Options of Kafka connections: servers, logins and properties, and secrets that appear nowhere."""

import pytest
from kafka.cluster import collect_hosts
from pydantic import Field

from tests.conformance.memory.reference import MemorySource
from tests.sources.kafka_options import NEEDED, SECRET, of
from tidegate import KafkaSource, OptionError
from tidegate.sources.kafka.java.properties import connection_config

SECRETS = [
    "kafka.sasl.plain.password",
    "kafka.ssl.key.password",
    "kafka.sasl.jaas.config",
    "kafka.ssl.keystore.password",
]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"me:{SECRET}@here:9092", "here:9092"),
        (f"SASL_SSL://me:{SECRET}@here:9092", "SASL_SSL://here:9092"),
        (f"http://me:{SECRET}@here:9092", "http://here:9092"),
        (f"there:9092,me:{SECRET}@here:9092", "here:9092"),
        (f"me:{SECRET},{SECRET}@here:9092,there", "here:9092,there"),
        (f"me:{SECRET}/{SECRET}@{SECRET}@here", "here"),
        (f"{SECRET}@", ""),
    ],
)
def test_a_login_among_the_servers_does_not_show_and_is_told_where_it_belongs(given, shown):
    with pytest.raises(OptionError) as raised:
        of(kafka__bootstrap__servers=given)
    assert f"the option 'kafka.bootstrap.servers' is {shown!r}: expected host:port" in str(raised.value)
    assert str(raised.value).endswith("; a login goes into kafka.sasl.plain.username and kafka.sasl.plain.password")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("wrong", [{"maxDrift": "x"}, {"kafka.no.such": SECRET}, {"kafka.fetch.max.bytes": SECRET}])
def test_a_secret_shows_in_no_error(name, wrong):
    with pytest.raises(OptionError) as raised:
        KafkaSource.from_options({**NEEDED, name: SECRET, **wrong})
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value)


def test_a_secret_shows_in_no_text_of_the_source():
    secure = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.plain.username": "me"}
    secret = {"sasl.plain.password": SECRET, "ssl.keystore.location": "me.pem", "ssl.key.password": SECRET}
    source = KafkaSource.from_options({**NEEDED, **{f"kafka.{k}": v for k, v in {**secure, **secret}.items()}})
    assert SECRET not in repr(source) + str(source)


def test_a_secret_shows_in_no_error_though_another_class_of_that_name_shows_it():
    def made(hidden):
        class Twice(MemorySource):
            token: int = Field(default=0, repr=not hidden)

        return Twice

    for hidden in (True, False), (False, True):
        sources = [made(properties) for properties in hidden]
        with pytest.raises(OptionError) as raised:
            sources[hidden.index(True)].from_options({"address": "a:b@c:1", "token": SECRET})
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize("kafka", [f"sasl.plain.password={SECRET}", [("sasl.plain.password", SECRET)], {1: SECRET}])
def test_a_secret_in_properties_of_the_wrong_shape_shows_in_no_error(kafka):
    with pytest.raises(
        OptionError, match=r"the option 'kafka' is malformed: expected (a valid dictionary|text)$"
    ) as raised:
        KafkaSource(bootstrap_servers="here:9092", subscribe=["orders"], kafka=kafka)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("here", "here"),
        ("here:9092, there:9093,", "here:9092,there:9093"),
        ("SASL_SSL://here:9092", "here:9092"),
        ("[::1]:9092,[fe80::1%eth0],::1,10.0.0.1:65535", "[::1]:9092,[fe80::1%eth0],::1,10.0.0.1:65535"),
    ],
)
def test_servers_are_read_as_kafka_python_reads_them(given, understood):
    assert connection_config(given, {}).bootstrap_servers == understood
    assert len(collect_hosts(understood)) == len(understood.split(","))


NO_SERVERS = ("localhost:abc", ":", "here:", ":9092", "here:0", "here:65536", "here:9092 there:9092", "[::1")
NO_SERVERS += ("[here]:9092", "http://here/kafka", "INTERNAL://here/kafka", "ftp://here:9092", "http://localhost:9092")


@pytest.mark.parametrize(
    ("given", "wrong"), [*zip(NO_SERVERS, NO_SERVERS, strict=True), ("there:9092,:", ":"), (" , ", " , ")]
)
def test_what_is_no_server_is_named(given, wrong):
    with pytest.raises(OptionError) as raised:
        of(kafka__bootstrap__servers=given)
    assert str(raised.value) == (
        f"the option 'kafka.bootstrap.servers' is {wrong!r}: expected host:port, such as broker:9092 or [::1]:9092, "
        "several separated by commas; the port is a number up to 65535"
    )


def test_a_whole_fetch_response_is_always_taken_unless_said_otherwise():
    largest = "receive_message_max_bytes"
    assert largest not in connection_config("here", {"fetch.max.bytes": "50000000"}).properties
    assert connection_config("here", {"fetch.max.bytes": "200000000"}).properties[largest] == 200_000_512
    limits = {"fetch.max.bytes": "200000000", "receive.message.max.bytes": "300000000"}
    assert connection_config("here", limits).properties[largest] == 300_000_000


@pytest.mark.parametrize("value", ["0", "-1", "1e6", "x", str(2**40 + 1), str(2**63 - 1), "9" * 5000])
def test_what_may_be_decompressed_has_a_limit(value):
    sentence = r"malformed: expected a whole number of bytes above 0, up to 1099511627776$"
    with pytest.raises(OptionError, match=f"^the option 'kafka.max.decompressed.bytes' is {sentence}"):
        connection_config("here:9092", {"max.decompressed.bytes": value})
    most = {"max.decompressed.bytes": str(2**40)}
    assert connection_config("here:9092", most).max_decompressed_bytes == 2**40


@pytest.mark.parametrize(
    ("name", "largest"),
    [("fetch.max.bytes", 2**31 - 1), ("request.timeout.ms", 2**31 - 1), ("metadata.max.age.ms", 2**63 - 1)],
)
def test_numbers_end_where_those_of_java_end(name, largest):
    connection_config("here", {name: str(largest)})
    for beyond in (largest + 1, 10**400):
        with pytest.raises(OptionError, match=f"'kafka.{name}' is malformed: expected a whole number up to {largest}$"):
            connection_config("here", {name: str(beyond)})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("startingOffsets", '{"orders": {"0": %d}}'),
        ("endingOffsetsByTimestamp", '{"orders": {"0": %d}}'),
        ("startingTimestamp", "%d"),
    ],
)
def test_offsets_and_times_end_where_those_of_kafka_end(option, value):
    of(**{option: value % (2**63 - 1)})
    with pytest.raises(OptionError, match=f"^the option '{option}' is .*: expected a"):
        of(**{option: value % 2**63})
