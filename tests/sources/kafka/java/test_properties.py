"""Options of Kafka connections and of Java clients: servers, logins, properties, and secrets that appear nowhere."""

import base64
import random
import subprocess
from pathlib import Path

import pytest
from kafka.cluster import collect_hosts
from pydantic import Field

from tests.conformance.memory.reference import MemorySource
from tests.sources.options_table import OURS
from tests.sources.test_time_options import NEEDED, SECRET, of
from tidegate import KafkaSource, OptionError
from tidegate.servers.java import find_jars, find_java
from tidegate.servers.kafka import COORDINATE
from tidegate.sources.kafka.java.login import parse_jaas
from tidegate.sources.kafka.java.properties import connection_config, known, read_properties
from tidegate.sources.kafka.java.table import INSTEAD, why_without_effect

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
        (f"me:{SECRET},{SECRET}@here:9092,there", "here:9092,there"),
        (f"me:{SECRET}/{SECRET}@{SECRET}@here", "here"),
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


FILE = r"""
# what Kafka's own tools take
! and another comment
security.protocol=SASL_SSL
  sasl.mechanism : PLAIN
kafka.sasl.plain.username me
sasl.plain.password = =s\u00e9cret: with\\everything #!\
    and more
ssl.cafile=first.pem
ssl.cafile=C:\\certificates\\second.pem
client.id=\#a\=b
ssl.endpoint.identification.algorithm=
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "client.properties"


def test_a_file_is_read_as_java_reads_it(path):
    path.write_text(FILE, encoding="utf-8")
    assert read_properties("--kafka-properties", path) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.plain.username": "me",
        "sasl.plain.password": "=s\u00e9cret: with\\everything #!and more",
        "ssl.cafile": "C:\\certificates\\second.pem",
        "client.id": "#a=b",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize("line", ["hunter2", "=hunter2", "hunter2\\"])
def test_a_line_that_is_no_property_is_named_by_its_number_only(path, line):
    path.write_text(f"client.id=a\n{line}")
    with pytest.raises(OptionError) as raised:
        read_properties("--kafka-properties", path)
    assert str(raised.value) == (
        f"--kafka-properties is {path}, whose line 2 is not a property; expected key=value, such as "
        "security.protocol=SSL"
    )


def test_a_file_that_cannot_be_read_is_named(path):
    with pytest.raises(OptionError, match=r"^--kafka-properties is .*, which cannot be read: No such file"):
        read_properties("--kafka-properties", path)
    path.write_bytes(b"sasl.plain.password=\xff")
    with pytest.raises(OptionError, match=r"^--kafka-properties is .*, which is not in UTF-8$"):
        read_properties("--kafka-properties", path)


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PIECES = [
    *("\"'\\\n\r\t =;#!,{@-_$./*"),
    *("//", "/*", "*/", "\\n", "\\101", "\\8", "\\'", '\\"', "é", "\u4e2d", "\x80", "a", "b1", "1", "12.5", "-3"),
    *("username", "password", 'username="me"', "password='p w'", "required", "optional", PLAIN),
]
FRAMES = [
    *("{}", "M required {};", 'a.M required x="{}";', "a.M required x='{}' y=z;", "M Required k={} ;"),
    'M required{}u="v";',
]


def random_texts(count):
    chosen = random.Random(1)
    for _ in range(count):
        yield chosen.choice(FRAMES).replace("{}", "".join(chosen.choices(PIECES, k=chosen.randint(1, 9))))


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def read_here(text):
    try:
        name, options = parse_jaas(text)
    except ValueError:
        return "refused"
    parts = [name, *(part for option in sorted(options.items()) for part in option)]
    return " ".join(f".{encoded(part)}" for part in parts)


@pytest.fixture(scope="module")
def texts():
    return list(random_texts(3000))


@pytest.fixture(scope="module")
def of_java(texts, tmp_path_factory):
    """The answers of Kafka's Java client: the names of its properties, and the value of each text."""
    file = tmp_path_factory.mktemp("jaas") / "texts"
    file.write_text("\n".join(map(encoded, texts)))
    jars = find_jars(COORDINATE, override="KAFKA_LIBS")
    command = [find_java(), "-classpath", f"{jars}/*", Path(__file__).with_name("OfJava.java"), file]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_login_module_is_read_as_java_reads_it_or_is_refused(texts, of_java):
    read = [(text, read_here(text), theirs) for text, theirs in zip(texts, of_java[1:], strict=True)]
    assert [(text, ours, theirs) for text, ours, theirs in read if ours not in {"refused", theirs}] == []
    assert sum(ours != "refused" for _, ours, _ in read) > 300


def test_every_property_of_java_is_understood_or_has_no_effect_or_is_refused_with_what_stands_for_it(of_java):
    understood = {*known(), *INSTEAD}
    groups = tuple(name for name in INSTEAD if name.endswith("."))
    names = of_java[0].split()
    assert len(names) > 130
    assert [
        n for n in names if n not in understood and not n.startswith(groups) and why_without_effect(n) is None
    ] == []
    assert [name for name in understood if why_without_effect(name) is not None] == []
    assert {name for name in known() if name not in names} == OURS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected the class of a login module, and after it 'required'"),
        ("hunter2", "expected the class of a login module, and after it 'required'"),
        (f'{PLAIN} required username="me"', "expected name=\"value\" after 'username', or the semicolon at the"),
        (f'{PLAIN} required username="me", password="hunter2";', "expected name=\"value\" after 'username', or the"),
        (f"{PLAIN} required password=7;", 'expected name="value", or .* only words need no quotation marks'),
        (rf'{PLAIN} required password="hunter2\n";', "a backslash needs a second one"),
        (f"{PLAIN} required; {PLAIN} required;", "it names more than one login module"),
    ],
)
def test_what_is_wrong_in_a_login_module_is_told_without_its_values(text, sentence):
    with pytest.raises(ValueError, match=sentence) as raised:
        parse_jaas(text)
    assert "hunter2" not in str(raised.value)
