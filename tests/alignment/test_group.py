"""The bounds that members of a group set for each other."""

import pytest

from tidegate.alignment.bound import Member, group_bound
from tidegate.errors import OptionError


def member(name, low_ms=None, *, drift=10, joined=1.0):
    return Member(name, drift, joined, low_ms)


def bound_of(me, other):
    return group_bound(me, [other], None, None)


@pytest.mark.parametrize("lows", [(100, 100), (100, 95), (95, 100), (0, 10**9)])
def test_the_bound_is_the_drift_past_the_other_and_one_of_two_members_can_always_go_on(lows):
    one, other = member("one", lows[0]), member("other", lows[1])
    bounds = bound_of(one, other).bound_ms, bound_of(other, one).bound_ms
    assert bounds == (lows[1] + 10, lows[0] + 10)
    assert bounds[0] > lows[0] or bounds[1] > lows[1]


def test_two_drifts_in_a_group_are_refused_to_the_one_that_came_later():
    first, second = member("z", 1, drift=10, joined=1.0), member("a", 1, drift=20, joined=2.0)
    with pytest.raises(OptionError, match=r"^maxDrift is 20 ms, but another source of the alignmentGroup has 10 ms"):
        bound_of(second, first)
    assert bound_of(first, second).bound_ms == 11
