"""Patterns of topics in Java's syntax, against java.util.regex."""

import itertools
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.enumerators.kafka.subscription import PatternError, _matching, check_pattern
from tidegate.servers.java import find_java

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
        ("ab(c", "it is no regular expression: missing )"),
        (".*(?<!_dlq|-x)", "look-behind requires fixed-width pattern"),
    ],
)
def test_what_may_not_mean_the_same_is_refused_with_its_place(pattern, sentence):
    with pytest.raises(PatternError) as refused:
        check_pattern(pattern)
    assert sentence in str(refused.value)


def test_a_pattern_that_backtracks_is_matched_at_once():
    assert _matching("(a+)+b", ["a" * 200, "aab"]) == ["aab"]  # Python alone would take longer than there is time
