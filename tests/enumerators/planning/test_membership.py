"""The membership of a coordinator in a group."""

from dataclasses import replace

from tidegate.alignment.plan import Plan, Progress, SplitPlan
from tidegate.alignment.states import SplitState
from tidegate.enumerators.planning.membership import Membership

PLANNED = Plan({}, Progress({"a": 1}), 50, "other", 60, 80, {"a": SplitPlan(SplitState.PAUSED)})


class Group:
    """Remembers its calls."""

    def __init__(self):
        self.told = []

    def join(self, stored, *, bounded):
        self.told.append(("join", stored))

    def tell(self, low_ms):
        self.told.append(("tell", low_ms))

    def name_of(self, member):
        return f"orders ({member})"


def test_a_member_holds_us_only_where_a_split_of_ours_is_paused_by_it():
    member = Membership(Group(), 10)
    assert (member.holder(PLANNED), member.name_of(PLANNED)) == ("other", "orders (other)")
    by_a_split = replace(PLANNED, held_by="a")
    assert (member.holder(by_a_split), member.name_of(by_a_split)) == (None, "a")
    assert member.holder(replace(PLANNED, splits={"a": SplitPlan(SplitState.READING)})) is None


def test_a_batch_that_is_replayed_holds_the_others_at_what_may_be_unread():
    group = Group()
    Membership(group, 10).stored({"id": "x"}, Progress({}, bound_ms=90), bounded=False)
    Membership(group, 10).stored({"id": "x"}, Progress({}), bounded=False)
    assert group.told == [("join", {"id": "x"}), ("tell", 80), ("join", {"id": "x"}), ("tell", 0)]
