"""The memory of topics, without a broker, and patterns of topics in Java's syntax, against java.util.regex."""

import itertools
import json
import subprocess
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.enumerators.kafka.subscription import PatternError, _matching, check_pattern
from tidegate.enumerators.kafka.topics import KnownTopics
from tidegate.errors import CheckpointError, UnavailableError
from tidegate.readers.kafka.config import TopicPartition
from tidegate.servers.java import find_java

ONE, OTHER = UUID(int=1), UUID(int=2)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def met(epochs, ids=None):
    """Topics with positions under these leader epochs."""
    topics = KnownTopics({})
    topics.observe(epochs, {"a": ONE, "b": ONE} if ids is None else ids)
    return topics


def compared(topics, epochs, positions, ids=None, begins=None, ends=None):
    """Return the divergences in a plan that sees these leader epochs now, and the epochs that it asked about."""
    ids = {"a": ONE, "b": ONE} if ids is None else ids
    topics.observe(epochs, ids)
    asked = {}

    def epoch_ends(wanted):
        asked.update(wanted)
        return {partition: (ends or {})[partition] for partition in wanted}

    diverged = topics.divergences(positions, begins or dict.fromkeys(positions, 0), ids, epoch_ends)
    return {partition: divergence.position for partition, divergence in diverged.items()}, asked


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 50)), st.integers(0, 5), min_size=1))
def test_a_snapshot_gives_back_what_was_known(epochs):
    epochs = {TopicPartition(*partition): epoch for partition, epoch in epochs.items()}
    again = KnownTopics(json.loads(json.dumps(met(epochs).snapshot())))
    assert {partition: again.epoch(partition) for partition in epochs} == epochs
    assert all(again.ids[topic] == ONE for topic, _ in epochs)
    assert again.snapshot() == met(epochs).snapshot()


@pytest.mark.parametrize("stored", ["%", "AAAA"])
def test_a_damaged_id_is_refused(stored):
    with pytest.raises(CheckpointError, match=r"the checkpoint is damaged: it holds .* for topic 'a'"):
        KnownTopics({"a": {"id": stored, "epochs": [0]}})


def test_a_topic_with_another_id_goes_on_at_its_beginning_once():
    topics = met({A0: 0, A1: 0, B0: 0})
    positions, ids = {A0: 10, A1: 20, B0: 30}, {"a": OTHER, "b": ONE}
    assert compared(topics, {A0: 0, A1: 0, B0: 0}, positions, ids, begins={A0: 3, A1: 0, B0: 0})[0] == {A0: 3, A1: 0}
    assert compared(topics, {A0: 0, A1: 0, B0: 0}, positions, ids)[0] == {}
    assert topics.ids == ids


def test_partitions_that_nobody_can_look_at_are_of_the_new_topic_too():
    topics = met({A0: 0, A1: 0})
    assert compared(topics, {A0: 0}, {A0: 10, A1: 20}, {"a": OTHER}, begins={A0: 0})[0] == {A0: 0, A1: 0}


def test_a_broker_that_still_names_the_topic_that_was_replaced_is_not_believed():
    topics = met({A0: 0})
    assert compared(topics, {A0: 0}, {A0: 10}, {"a": OTHER})[0] == {A0: 0}
    assert compared(topics, {A0: 0}, {A0: 5}, {"a": ONE})[0] == {}
    assert topics.ids["a"] == OTHER


@pytest.mark.parametrize(("end", "expected"), [(99, 99), (100, None), (150, None), (2, 5)])
def test_a_log_that_was_cut_before_a_position_goes_on_where_it_was_cut(end, expected):
    diverged, asked = compared(met({A0: 3}), {A0: 6}, {A0: 100}, begins={A0: 5}, ends={A0: (3, end)})
    assert diverged.get(A0) == expected
    assert asked == {A0: 3}


def test_a_log_that_never_knew_the_epoch_says_nothing_while_the_topic_is_the_same():
    assert compared(met({A0: 3}), {A0: 6}, {A0: 100}, ends={A0: (-1, -1)})[0] == {}


def test_an_epoch_that_goes_back_is_another_topic_where_brokers_name_no_ids():
    topics = met({A0: 3}, {})
    assert compared(topics, {A0: 1}, {A0: 100}, {}, ends={A0: (-1, -1)})[0] == {A0: 0}
    assert topics.snapshot() == {"a": {"id": "", "epochs": [1]}}


def test_ids_are_noted_once_brokers_name_them():
    topics = met({A0: 3}, {})
    assert compared(topics, {A0: 3}, {A0: 100})[0] == {}
    assert topics.ids["a"] == ONE


def test_a_topic_of_which_no_position_is_left_may_come_back_under_another_id():
    topics = met({A0: 3})
    topics.forget([A0], ["a"])
    assert topics.snapshot() == {"a": {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "epochs": []}}
    assert compared(topics, {A0: 0}, {A0: 0}, {"a": OTHER})[0] == {}
    assert topics.ids["a"] == OTHER


def test_a_topic_that_nobody_names_is_forgotten_with_its_last_partition():
    topics = met({A0: 3, A1: 3})
    topics.forget([A0], [])
    assert topics.snapshot() == {"a": {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "epochs": [-1, 3]}}
    topics.forget([A1], [])
    assert topics.snapshot() == {}


def test_an_epoch_that_cannot_be_compared_now_is_compared_later():
    topics, ids = met({A0: 3, B0: 3}), {"a": ONE, "b": OTHER}
    topics.observe({A0: 6, B0: 0}, ids)

    def fail(_):
        raise UnavailableError("its leader is away")

    with pytest.raises(UnavailableError):
        topics.divergences({A0: 100, B0: 100}, {A0: 0, B0: 0}, ids, fail)
    diverged, _ = compared(topics, {A0: 6, B0: 0}, {A0: 100, B0: 100}, ids, ends={A0: (3, 50)})
    assert diverged == {A0: 50, B0: 0}
    assert topics.is_settled


CHARS = "abA-._1"
NAMES = [
    *map("".join, itertools.chain.from_iterable(itertools.product(CHARS, repeat=n) for n in (1, 2, 3))),
    *("orders", "orders-eu", "Orders", "orders.v2", "orders_dlq", "__consumer_offsets", "payments-1", "k", "s"),
]


class Java:
    def __init__(self):
        source = Path(__file__).with_name("JavaPatterns.java")
        self._process = subprocess.Popen(
            [find_java(), source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._process.stdin.write(f"{' '.join(NAMES)}\n")

    def matching(self, pattern):
        """Return the names that a pattern matches; None: it is no pattern."""
        self._process.stdin.write(b64encode(pattern.encode()).decode() + "\n")
        self._process.stdin.flush()
        verdict, *names = self._process.stdout.readline().split()
        return names if verdict == "matches" else None

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def java():
    process = Java()
    yield process
    process.close()


IN_CLASSES = r"a-b -a A-b \d \W \S \- \] \p{Alpha} \P{Punct} \p{Lower} \x61 \Qa-b\E \pL a&b &&[ab] &&[^a] &&b"
OUTSIDE = r"orders \. \d \w \D \s \b \B \A \z \Z \Qa.b\E \E \p{Alnum} \PN \u0061 \1 \n \/ (?i) (?-i) (?s) (?x) (?u)"
ELEMENTS = st.sampled_from([*"ab1-^&.|]", *IN_CLASSES.split()])
CLASSES = st.recursive(
    st.lists(ELEMENTS, min_size=1, max_size=4).map("".join),
    lambda inner: st.tuples(inner, inner).map(lambda pair: f"{pair[0]}[{pair[1]}]"),
    max_leaves=3,
).flatmap(lambda inner: st.sampled_from([f"[{inner}]", f"[^{inner}]"]))
ATOMS = st.one_of(st.sampled_from([*"ab1-_A.^$]}{é", "", *OUTSIDE.split()]), CLASSES)
QUANTIFIERS = st.sampled_from(
    ["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??", "{1,2}?", "*+", "{2,1}", "{,2}"]
)
GROUPS = st.sampled_from(["(", "(?:", "(?i:", "(?-i:", "(?<n>", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?s:"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(GROUPS, inner).map(lambda pair: f"{pair[0]}{pair[1]})"),
        st.tuples(inner, QUANTIFIERS).map("".join),
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=PATTERNS)
def test_a_pattern_matches_what_java_matches_or_is_refused(java, pattern):
    try:
        check_pattern(pattern)
    except PatternError:
        return
    assert _matching(pattern, NAMES) == java.matching(pattern)


USUAL = [
    *("orders", "orders.*", "(?i)ORDERS.*", "orders(-eu)?", "orders|payments-[0-9]+", r"orders\.v\d+", "(?!__).*"),
    *(".*(?<!_dlq)", "^orders$", r"[^_].*", r"\w+-\w+", ".{1,3}", "[a-zA-Z0-9._-]+", "o.*?s", "(orders){1}"),
    *("(?:(?i:O)rders)", r"[^\W_]+", "(?=o).*s", r"[\w.]+", r"(?:orders|payments)(?:-[a-z0-9]+)*"),
    *("[-a-z]+", r"orders[^-]eu|[\w-]+", r"[a\-b]", "[a-c_-]", ".{1,999}", "(?:(?=o)o)?rders"),
]


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_taken(java, pattern):
    check_pattern(pattern)
    assert _matching(pattern, NAMES) == java.matching(pattern) != []


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("a*+b", "at index 1 is '*+b'"),
        (r"(a)\1", r"at index 3 is '\\1'"),
        ("(?>a)", "at index 1 is '?>a)'"),
        ("a(?i)b", "at index 2 is '?i)b'"),
        ("[a-z&&[^b]]", "at index 0 is '[a-z&&[^'"),
        (r"\p{Lower}", r"at index 0 is '\\p{Lower'"),
        ("*a", "at index 0 is '*a'"),
        ("a{,3}", "at index 1 is '{,3}'"),
        ("a\\", "at index 1 is '\\\\'"),
        ("é", "at index 0 is 'é'"),
        ("[ --]", "at index 0 is '[ --]'"),
        ("[--a]", "at index 0 is '[--a]'"),
        ("[a-z-9]", "at index 0 is '[a-z-9]'"),
        (r"[\d-z]", r"at index 0 is '[\\d-z]'"),
        ("(?!x)*a", "at index 4 is ')*a'"),
        ("a(?<=(a|b))?", "at index 10 is ')?'"),
        ("x{1001}", "with counts up to 999"),
        ("ab(c", "it is not a regular expression: missing )"),
        (".*(?<!_dlq|-x)", "look-behind requires fixed-width pattern"),
    ],
)
def test_what_may_not_mean_the_same_is_refused_with_its_place(pattern, sentence):
    with pytest.raises(PatternError) as refused:
        check_pattern(pattern)
    assert sentence in str(refused.value)


def test_a_pattern_that_backtracks_is_matched_at_once():
    assert _matching("(a+)+b", ["a" * 200, "aab"]) == ["aab"]  # Python alone would take longer than there is time
