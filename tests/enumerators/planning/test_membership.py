"""The membership of a coordinator in a group."""

from dataclasses import replace

from tidegate.alignment.cuts import Span
from tidegate.alignment.group import GroupBound
from tidegate.alignment.plan import Plan, Progress, SplitPlan
from tidegate.alignment.splits import Head
from tidegate.alignment.standing import Standing
from tidegate.alignment.states import SplitState
from tidegate.enumerators.planning.membership import Membership

STANDING = Standing(Progress({"a": 1}, bound_ms=90), {}, {}, {}, {}, {}, {}, low_ms=80, held_by="a")
PLANNED = Plan({}, Progress({"a": 1}), 50, "other", 60, 80, {"a": SplitPlan(SplitState.PAUSED)})


class Group:
    """Remembers its calls."""

    def __init__(self):
        self.told = []

    def join(self, stored):
        self.told.append(("join", stored))

    def bound(self, low_ms, stored_bound_ms):
        self.told.append(("bound", low_ms, stored_bound_ms))
        return GroupBound(50, 60, "other")

    def tell(self, low_ms):
        self.told.append(("tell", low_ms))

    def name_of(self, member):
        return f"orders ({member})"

    def grew(self):
        return False


def test_without_a_bound_a_missing_member_is_waited_for_at_the_first_record_of_all_even_a_late_one():
    group, heads = Group(), {"late": Span(Head(1, 7), 1, 3), "held": Span(Head(1, 500), 1, 2)}
    late = Standing(Progress({"late": 1}, watermark_ms=60), {}, {}, {}, heads, {}, {}, overdue=frozenset({"late"}))
    Membership(group, 10).bound(late)
    assert group.told == [("bound", 61, 7)]


def test_a_member_holds_us_only_where_a_split_of_ours_is_paused_by_it():
    member = Membership(Group(), 10)
    assert (member.holder(PLANNED), member.name_of(PLANNED)) == ("other", "orders (other)")
    by_a_split = replace(PLANNED, held_by="a")
    assert (member.holder(by_a_split), member.name_of(by_a_split)) == (None, "a")
    assert member.holder(replace(PLANNED, splits={"a": SplitPlan(SplitState.READING)})) is None


def test_a_batch_that_is_replayed_holds_the_others_at_what_may_be_unread():
    group = Group()
    Membership(group, 10).stored({"id": "x"}, Progress({}, bound_ms=90))
    Membership(group, 10).stored({"id": "x"}, Progress({}))
    assert group.told == [("join", {"id": "x"}), ("tell", 80), ("join", {"id": "x"}), ("tell", 0)]


def test_by_watermark_a_member_without_a_low_waits_for_missing_ones_too():
    group = Group()
    Membership(group, 10, by_watermark=True).bound(replace(STANDING, low_ms=None))
    assert group.told == [("bound", None, 0)]


def test_a_batch_that_is_replayed_by_watermark_holds_the_others_at_the_start_of_time():
    group = Group()
    Membership(group, 10, by_watermark=True).stored({"id": "x"}, Progress({}, bound_ms=90))
    assert group.told == [("join", {"id": "x"}), ("tell", 0)]
