"""The rules of a plan, one by one, on worlds small enough to follow by hand."""

from dataclasses import replace

import pytest

from tests.alignment.model import Entry, KafkaLike, Log, PeekOnly, World, log, states
from tidegate.alignment.budget import Budget, Cost
from tidegate.alignment.group import Member, group_bound
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Observed, Progress, SplitState
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent
from tidegate.alignment.standing import find_standing
from tidegate.errors import DataLossError, OptionError

WALL_CLOCK_MS = 10**9


class TestLow:
    """Rule 1: low is the least head time of unread splits, and of splits that may still deliver."""

    def test_beam_20908_a_split_that_never_had_a_record_holds_nobody(self):
        world = World({"empty": log(), "busy": log(0, 100)}, Limits(max_drift_ms=10))
        world.plan()
        world.plan()
        assert world.read("busy") == [0, 100]
        assert world.progress.watermark_ms == 99

    def test_late_splits_alone_are_read_slice_by_slice_too(self):
        # Without the bound of an earlier run there was no low and no bound.  The slice overshot, and
        # with a budget the bound was then in the past, where it paused the split for ever.
        world = World({"a": log(1000)}, Limits())
        world.plan()
        assert (world.progress.watermark_ms, world.progress.bound_ms) == (999, None)
        world.discover("late", log(5, 6, 1099, 1100))
        world.limits = Limits(max_drift_ms=100, budget=Budget(rows=1))
        world.quiet.add("a")
        assert [world.plan().low_ms for _ in range(3)] == [None, None, 1099]
        assert world.read("late") == [5, 6, 1099]
        world.drain()
        assert world.read("late") == [5, 6, 1099, 1100]


class TestBound:
    """Rule 2: the bound is low + drift, and comes down only through the group."""

    def test_a_batch_that_is_cut_earlier_by_its_budget_leaves_the_bound_where_it_was(self):
        world = World({"a": log(100, 105)}, Limits(max_drift_ms=10, out_of_orderness_ms=None))
        world.plan()
        world.discover("slower", log(50, 51, 52))
        world.limits = replace(world.limits, budget=Budget(rows=1))
        world.plan()
        assert world.read("slower") == [50]
        assert world.progress.bound_ms == 110

    def test_the_group_lowers_the_bound_and_then_ranges_are_empty_not_negative(self):
        world = World({"a": log(100, 105, 120)}, Limits(max_drift_ms=10))
        world.plan()
        world.group_low_ms = 0
        planned = world.plan()
        assert planned.low_ms == 0
        assert not planned.ranges
        assert planned.progress.bound_ms == 110
        assert states(world) == {"a": SplitState.PAUSED}


class TestBudget:
    """Rule 3: the greatest time that fits, else T = low + 1 ms and cuts by position."""

    def test_the_cut_is_by_time_when_a_time_fits(self):
        world = World({"a": log(*range(0, 100, 2)), "b": log(*range(0, 100, 5))}, Limits(budget=Budget(rows=14)))
        world.plan()
        assert (len(world.read("a")), len(world.read("b"))) == (9, 4)
        assert world.progress.bound_ms in {17, 18}

    def test_a_record_dearer_than_the_budget_is_read_alone(self):
        def cost(ranges):
            return Cost(bytes=sum(100 * (r.end - r.start) for r in ranges.values()))

        world = World({"a": log(1, 1, 2), "b": log(1)}, Limits(budget=Budget(bytes=50), cost=cost))
        assert [sum(r.end - r.start for r in world.plan().ranges.values()) for _ in range(4)] == [1, 1, 1, 1]

    @pytest.mark.parametrize(
        ("leading", "late", "unread", "least", "most"),
        [("abc", 1, 900, 10, 13), ("a", 9, 900, 18, 24), ("abc", 1, 2, 2, 2)],
        ids=["one beside many gets the share of one", "many leave half", "what a short one leaves is used"],
    )
    def test_late_splits_get_a_fair_share_of_the_budget(self, leading, late, unread, least, most):
        world = World({s: log(*range(1000, 1101), readable=False) for s in leading}, Limits())
        for count in (1, 100):
            for split_log in world.logs.values():
                split_log.append(count)
            if count == 1:
                world.plan()
        for i in range(late):
            world.discover(f"late{i}", log(*range(unread)))
        world.limits = Limits(budget=Budget(rows=40))
        planned = world.plan()
        rows = {s: r.end - r.start for s, r in planned.ranges.items()}
        assert least <= sum(count for s, count in rows.items() if s not in leading) <= most
        assert sum(rows.values()) >= 37  # the budget is used, up to records of one time

    def test_the_scarcest_unit_decides(self):
        def cost(ranges):
            return Cost(rows=sum(r.end - r.start for r in ranges.values()), files=len(ranges))

        logs = {f"s{i}": log(i * 10, i * 10 + 1) for i in range(5)}
        world = World(logs, Limits(budget=Budget(rows=100, files=2), cost=cost))
        assert set(world.plan().ranges) == {"s0", "s1"}

    def test_without_alignment_the_budget_is_shared_by_backlog(self):
        world = World(
            {"a": log(*range(30)), "b": log(*range(1000, 1010))}, Limits(aligned=False, budget=Budget(rows=8))
        )
        planned = world.plan()
        assert (len(world.read("a")), len(world.read("b"))) == (5, 3)
        assert (planned.low_ms, planned.progress.bound_ms) == (None, None)
        assert planned.progress.watermark_ms == 4


class TestEnds:
    """Rule 4: targets of a bounded run, and configured ends."""

    @pytest.mark.parametrize(
        ("beyond_ms", "low_ms", "position", "watermark_ms"),
        [(None, 8, 1, 7), (50, 50, 1, 49), (95, 95, 2, 94), (2, 100, 2, 109)],
    )
    def test_a_split_at_its_target_holds_by_the_next_record_that_a_later_run_reads(
        self, beyond_ms, low_ms, position, watermark_ms
    ):
        short = log(0) if beyond_ms is None else log(0, beyond_ms)
        index = TimeIndex(KafkaLike({"short": short, "long": log(0, 100, 200)}))
        extents = {"short": Extent(0, 1, more=beyond_ms is not None), "long": Extent(0, 3)}
        limits = Limits(max_drift_ms=10)
        # A record at or before the watermark is late, and holds nobody.
        before = Progress({"short": 1, "long": 1}, watermark_ms=7, late=frozenset({"short"}))
        planned = plan(Observed(before, extents), limits, index)
        assert (planned.low_ms, planned.progress.positions["long"]) == (low_ms, position)
        assert planned.progress.watermark_ms == watermark_ms
        assert planned.splits["short"].state is SplitState.CAUGHT_UP

    def test_a_record_past_a_configured_end_is_nobodys_next_record(self):
        short = Log([Entry(0, 0), Entry(2, 50)], end=3)
        index = TimeIndex(KafkaLike({"short": short, "long": log(0, 100, 200)}))
        extents = {"short": Extent(0, 1, more=True), "long": Extent(0, 3)}
        before, limits = Progress({"short": 1, "long": 1}, watermark_ms=7), Limits(max_drift_ms=10, stops={"short": 2})
        standing = find_standing(Observed(before, extents), index, limits)
        assert (standing.low_ms, standing.held_by) == (8, "short")

    def test_a_hole_before_a_configured_end_is_read_but_no_record_past_it(self):
        short = Log([Entry(0, 0), Entry(2, 50)], end=3)
        limits = Limits(max_drift_ms=10, stops={"short": 2, "long": None})
        world = World({"short": short, "long": log(100)}, limits, starts={"short": 1})
        assert world.plan().low_ms == 0  # its last event time
        assert world.plan().low_ms == 100
        assert (world.read("short"), states(world)["short"]) == ([], SplitState.FINISHED)


class TestBlindness:
    """Rule 6: the answer of a lookup is a candidate."""

    def transactional(self, commits=3):
        entries = []
        for i in range(commits * 10):
            marker = i % 10 == 9
            entries.append(Entry(i, WALL_CLOCK_MS if marker else i * 10, seen=not marker))
        return Log(entries, end=commits * 10)

    def test_a_transactional_back_fill_advances_past_its_commit_markers(self):
        # The first marker answers every lookup.  A batch that is cut there would hold one transaction, and
        # the split would seem to be at the time of the clock.
        world = World({"a": self.transactional()}, Limits(max_drift_ms=150))
        planned = world.plan()
        assert world.read("a") == [t for t in range(0, 150, 10) if t != 90]
        assert not planned.splits["a"].exact
        world.drain()
        assert len(world.read("a")) == 27

    def test_a_marker_that_is_read_still_blinds_until_the_time_asked_for_has_passed_its_clock(self):
        # A lookup searches the whole log, even the records that were read.
        entries = [Entry(0, 0), Entry(1, 150, seen=False), Entry(2, 5), Entry(3, 100), Entry(4, 200), Entry(5, 300)]
        world = World({"a": Log(entries, end=6)}, Limits(max_drift_ms=10))
        assert [world.plan().splits["a"].exact for _ in range(3)] == [False, False, True]

    def test_a_probed_split_that_is_also_cut_by_position_is_still_inexact(self):
        world = World({"a": log(*[5] * 7)}, Limits(budget=Budget(rows=3)), source=PeekOnly)
        assert not world.plan().splits["a"].exact
        assert world.read("a") == [5, 5, 5]


class TestDataLoss:
    """Rule 7: extents that do not fit positions, and records that may not be read yet."""

    @pytest.mark.parametrize("fail_on_data_loss", [True, False])
    def test_a_split_that_ends_before_its_position_is_always_an_error(self, fail_on_data_loss):
        world = World({"a": log(0, 1, 2)}, Limits(fail_on_data_loss=fail_on_data_loss))
        world.plan()
        world.logs["a"].end = 1
        with pytest.raises(DataLossError, match="ends at position 1, before position 3"):
            world.plan()

    def test_a_split_whose_unread_records_were_deleted_is_not_idle_at_once(self):
        world = World({"a": log(0), "b": log(0, 100)}, Limits(max_drift_ms=10, fail_on_data_loss=False))
        world.drain()
        assert states(world)["b"] is SplitState.PAUSED
        world.trim("b", 2)
        world.quiet.add("b")
        world.plan()
        assert states(world)["b"] is SplitState.CAUGHT_UP


class TestComplete:
    """A split to which nothing will be added, in a source that goes on: a manifest of objects."""

    def test_the_plan_that_reads_the_last_of_it_moves_the_watermark_past_it(self):
        world = World({"read": log(0, 5), "long": log(0, 50, 60)}, Limits(max_drift_ms=55))
        world.logs["read"].complete = True
        assert world.plan().progress.watermark_ms == 54
        assert states(world)["read"] is SplitState.READING

    def test_when_all_are_read_the_watermark_is_of_the_one_that_came_furthest_and_the_source_goes_on(self):
        world = World({"a": log(0, 5), "b": log(0, 50)}, Limits())
        for split_log in world.logs.values():
            split_log.complete = True
        world.drain()
        assert (world.progress.watermark_ms, world.progress.ended) == (49, False)
        world.discover("c", log(60, 70))
        world.drain()
        assert (world.read("c"), world.progress.watermark_ms) == ([60, 70], 69)


class TestHorizon:
    """Rule 2: a record past the horizon waits alone, and its time says nothing of others."""

    LIMITS = Limits(max_drift_ms=10, horizon_ms=1_000)

    def test_it_moves_no_watermark_when_the_others_are_idle(self):
        world = World({"a": log(0, 20), "held": log(5, 5_000)}, self.LIMITS)
        world.drain()
        world.quiet.add("a")
        world.plan()
        assert states(world)["a"] is SplitState.IDLE
        assert world.progress.watermark_ms == 19

    def test_it_moves_the_watermark_once_its_time_has_come(self):
        world = World({"held": log(5, 5_000, 6_000)}, self.LIMITS)
        world.drain()
        world.limits = Limits(max_drift_ms=10, horizon_ms=5_500)
        world.drain()
        assert world.read("held") == [5, 5_000]
        assert world.progress.watermark_ms == 4_999

    def test_the_watermark_does_not_pass_it_though_others_were_read_before_the_clock_went_back(self):
        world = World({"a": log(0, 1_500), "b": log(0)}, Limits(horizon_ms=2_000))
        world.drain()
        world.limits = Limits(horizon_ms=1_000)
        world.logs["b"].entries.append(Entry(1, 1_200))
        world.logs["b"].append(1)
        world.drain()
        assert world.read("b") == [0]
        assert world.progress.watermark_ms == 1_199

    def test_a_late_split_that_waits_for_the_clock_holds_no_watermark(self):
        world = World({"a": log(150), "b": log(100)}, Limits())
        world.plan()
        world.quiet.add("b")
        world.discover("late", log(60))
        world.limits = Limits(horizon_ms=50)
        world.plan()
        assert (states(world)["late"], world.progress.watermark_ms) == (SplitState.PAUSED, 149)


def in_bytes(ranges):
    """As Kafka's: rows, and bytes by their mean size."""
    count = sum(r.end - r.start for r in ranges.values())
    return Cost(rows=count, bytes=64 * count)


def rows(planned):
    return sum(r.end - r.start for r in planned.ranges.values())


@pytest.mark.parametrize("budget", [Budget(rows=1), Budget(bytes=100), Budget(bytes=32), Budget(rows=2)])
def test_a_late_partition_and_the_others_take_turns_where_a_batch_has_room_for_one_position(budget):
    limits = Limits(max_drift_ms=5_000, budget=budget, cost=in_bytes)
    world = World({"a": log(*range(1_000, 1_100))}, limits)
    world.plan()
    world.discover("late", log(*range(100)))
    for _ in range(100):
        assert rows(world.plan()) <= 2
    assert len(world.read("a")) > 20, "a late split has all of the budget"
    assert len(world.read("late")) > 20, "a late split starves"


def test_a_late_split_that_is_away_for_a_plan_is_still_late():
    world = World({"a": log(*range(1_000, 1_400))}, Limits(max_drift_ms=5_000, budget=Budget(rows=20)))
    world.plan()
    world.discover("late", log(*range(400)))
    world.plan()
    world.away.add("late")
    assert world.plan().progress.late == {"late"}
    world.away.clear()
    planned = world.plan()
    assert planned.splits["late"].late
    assert sum(r.end - r.start for s, r in planned.ranges.items() if s == "a") > 5, "late rows have the budget"


def test_the_watermark_stays_where_only_late_splits_are_active():
    world = World({"a": log(*range(0, 5000, 100)), "b": log(0, 1000)}, Limits(max_drift_ms=10_000))
    world.quiet.add("a")
    world.drain()
    assert world.progress.watermark_ms == 999
    world.limits = replace(world.limits, budget=Budget(rows=8))
    world.discover("late", log(*range(500, 3000, 10)))
    world.plan()
    world.quiet.add("b")
    world.plan()
    assert (world.progress.idle, world.progress.late) == ({"a", "b"}, {"late"})
    assert world.progress.watermark_ms == 999
    world.drain()
    assert world.progress.watermark_ms == 2989


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
