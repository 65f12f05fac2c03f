"""Patterns of topics, without a broker."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.enumerators.kafka.subscription import _matching

PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "orders", r"\."]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)
TOPICS = st.lists(st.text("ab.-", min_size=1, max_size=6), max_size=6)


@given(PATTERNS, TOPICS)
def test_the_topics_are_those_whose_whole_name_python_would_match(pattern, topics):
    assert _matching(pattern, topics) == [topic for topic in topics if re.fullmatch(pattern, topic)]


def test_a_pattern_that_backtracks_is_matched_at_once():
    assert _matching("(a+)+b", ["a" * 200, "aab"]) == ["aab"]  # Python alone would take longer than there is time


@pytest.mark.parametrize(("pattern", "matching"), [("(?=a)a.*", ["ab"]), (r"(b)\1", ["bb"])])
def test_what_only_python_knows_is_left_to_python(pattern, matching):
    assert _matching(pattern, ["ab", "bb"]) == matching
