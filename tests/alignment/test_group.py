"""The bounds that members of a group set for each other."""

import pytest

from tidegate.alignment.group import Member, group_bound
from tidegate.errors import OptionError


def member(name, low_ms=None, *, drift=10, joined=1.0, priority=0):
    return Member(name, drift, joined, priority, low_ms)


def bound_of(me, other):
    return group_bound(me, [other], None, None)


def test_a_dimension_of_higher_priority_is_read_before_the_facts():
    facts, dimension = member("facts", 100), member("dimension", 95, priority=1)
    assert bound_of(facts, dimension).bound_ms == 95
    assert bound_of(dimension, facts).bound_ms == 110


@pytest.mark.parametrize("lows", [(100, 100), (100, 95), (95, 100), (0, 10**9)])
def test_of_two_members_one_can_always_go_on_whatever_their_priorities(lows):
    facts, dimension = member("facts", lows[0]), member("dimension", lows[1], priority=1)
    bounds = {"facts": bound_of(facts, dimension).bound_ms, "dimension": bound_of(dimension, facts).bound_ms}
    assert bounds["facts"] > lows[0] or bounds["dimension"] > lows[1]


def test_two_drifts_in_a_group_are_refused_to_the_one_that_came_later():
    first, second = member("z", 1, drift=10, joined=1.0), member("a", 1, drift=20, joined=2.0)
    with pytest.raises(OptionError, match=r"^maxDrift is 20 ms, but another source of the alignmentGroup has 10 ms"):
        bound_of(second, first)
    assert bound_of(first, second).bound_ms == 11
