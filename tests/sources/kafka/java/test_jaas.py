"""``sasl.jaas.config`` and the names of properties, beside Kafka's own Java client."""

import base64
import random
import subprocess
from pathlib import Path

import pytest

from tests.sources.kafka.options_table import OURS
from tidegate.servers.java import find_jars, find_java
from tidegate.servers.kafka import COORDINATE
from tidegate.sources.kafka.java.login import parse_jaas
from tidegate.sources.kafka.java.properties import known
from tidegate.sources.kafka.java.table import INSTEAD, why_without_effect

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
