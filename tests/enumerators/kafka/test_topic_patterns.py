"""Patterns of topics in Java's syntax, against java.util.regex."""

import itertools
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.enumerators.kafka.subscription import _matching
from tidegate.enumerators.kafka.topic_patterns import PatternError, translated
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
        translated(pattern)
    except PatternError:
        return
    assert _matching(pattern, NAMES) == java.matching(pattern)


USUAL = [
    *("orders", "orders.*", "(?i)ORDERS.*", "orders(-eu)?", "orders|payments-[0-9]+", r"orders\.v\d+", "(?!__).*"),
    *(".*(?<!_dlq)", "[a-z&&[^o]].*", "[a-z[A-Z]]+", r"\p{Lower}+", "[\\p{Alpha}_]+", r"\Qorders.v2\E", "^orders$"),
    *(r"[^_].*", r"\w+-\w+", "(?<name>orders).*", ".{1,3}", "[a-zA-Z0-9._-]+", r"\Aorders\z", "o.*?s", "(orders){1}"),
    *("[^a-n&&[a-z]].*", "[[a-o]&&[o-z]].*", "(?:(?i)O)rders", r"[\w&&[^\d]]+", r"\P{Upper}+", r"[^\W_]+", "(?=o).*s"),
]


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_translated(java, pattern):
    assert _matching(pattern, NAMES) == java.matching(pattern) != []


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("a*+b", "at index 2 is a possessive quantifier; leave out the +"),
        (r"(a)\1", r"at index 3 is \1, such as a reference to a group"),
        (
            "(?>a)",
            "at index 0 is a group that is not (...), (?:...), (?<name>...), a look around, or flags of i, d, m, s",
        ),
        ("(?x)a b", "at index 0 is a group that is not"),
        ("[a-z&&b]", "at index 4 is && that is not followed by a class in brackets, such as [a-z&&[^b]]"),
        ("[a&&[b]c]", "at index 0 is more after the class at the right of &&"),
        (r"a\p{IsLatin}", "at index 1 is the property 'IsLatin'"),
        (r"(?i)\p{Lower}", "at index 4 is the property 'Lower' while case is ignored"),
        ("ab(c", "at index 2 is a group that is not closed"),
        ("[ab", "at index 0 is a class that is not closed"),
        ("a)", "at index 1 is a closing parenthesis without an opening one"),
        ("*a", r"at index 0 is * with nothing before it to repeat; write \* for the character"),
        ("a{,3}", "at index 2 is a { without a number up to 1000"),
        ("a\\", "at index 1 is a backslash at the end"),
        (".*(?<!_dlq|-x)", "look-behind requires fixed-width pattern"),
        ("(" * 5000, "recursion"),
    ],
)
def test_what_is_not_translated_is_named_with_its_place(pattern, sentence):
    with pytest.raises(PatternError) as refused:
        translated(pattern)
    assert sentence in str(refused.value)


def test_a_pattern_that_backtracks_is_matched_at_once():
    assert _matching("(a+)+b", ["a" * 200, "aab"]) == ["aab"]  # Python alone would take longer than there is time
