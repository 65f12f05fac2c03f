"""The standing of splits before a plan, and the cost of plans in requests to the source."""

import random
from bisect import bisect_left
from dataclasses import replace
from itertools import accumulate
from statistics import mean

import pytest

from tests.alignment.model import KafkaLike, Log, log
from tidegate.alignment.budget import Budget
from tidegate.alignment.group import GroupBound
from tidegate.alignment.index import Peeking, TimeIndex
from tidegate.alignment.plan import Limits, Observed, Progress, SplitState
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Head
from tidegate.alignment.standing import Standing, find_lows, find_standing
from tidegate.errors import DataLossError

DRIFT_10 = Limits(max_drift_ms=10)


def no_others(_):
    """Return the bound of a group without other members."""
    return GroupBound()


class Source:
    """Splits with positions, and an index that is kept from plan to plan."""

    def __init__(self, logs):
        self.logs, self.index = logs, TimeIndex(KafkaLike(logs))

    def observed(self, positions, *, idle=()):
        extents = {s: Extent(log.begin, log.end, log.settled, log.complete) for s, log in self.logs.items()}
        return Observed(Progress(positions), extents, idle)

    def standing(self, positions, limits=DRIFT_10, *, idle=()):
        return find_standing(self.observed(positions, idle=idle), self.index, limits)


@pytest.mark.parametrize(
    ("overdue", "held", "low_ms", "reported_ms"),
    [("late", "", None, 61), ("late", "late", None, None), ("", "late", None, None), ("late", "", 80, 80)],
)
def test_without_a_low_the_group_learns_the_watermark_if_a_record_in_time_may_follow_late_ones(
    overdue, held, low_ms, reported_ms
):
    standing = Standing(Observed(Progress({}, watermark_ms=60), {}), {}, {}, {}, {}, {}, {}, low_ms=low_ms)
    standing = replace(standing, overdue=frozenset({overdue} - {""}), held=frozenset({held} - {""}))
    assert standing.group_low_ms == reported_ms


@pytest.mark.parametrize(
    ("waits_for_late", "watermark_ms", "lows"),
    [
        (False, 60, {"straggler": 61, "in time": 90, "caught up": 61, "at 95": 95, "away": 61}),
        (True, 60, {"late": 20, "straggler": 61, "in time": 90, "caught up": 61, "at 95": 95, "away": 61}),
        (False, None, {"straggler": 50, "in time": 90, "caught up": 40, "at 95": 95, "away": 70}),
    ],
)
def test_each_split_holds_where_it_may_still_have_rows_in_time(waits_for_late, watermark_ms, lows):
    limits = Limits(max_drift_ms=10, horizon_ms=1000, late_splits="catch-up" if waits_for_late else "admit")
    before = Progress({}, bound_ms=80, watermark_ms=watermark_ms)
    heads_ms = {"late": 20, "straggler": 50, "in time": 90, "held": 1000}
    late = ["late"] if watermark_ms is not None else []
    latest_ms = {"caught up": 40, "at 95": 95}
    found = find_lows(before, heads_ms=heads_ms, latest_ms=latest_ms, away=["away"], late=late, limits=limits)
    assert {s: at_ms for s, at_ms in found.items() if s != "late" or late} == lows


@pytest.mark.parametrize(("horizon_ms", "reported_ms"), [(1000, 61), (30, None)])
def test_after_a_batch_of_late_rows_the_group_learns_the_watermark_unless_they_wait_for_the_clock(
    horizon_ms, reported_ms
):
    index = TimeIndex(KafkaLike({"late": log(0, 1, 40, 50)}))
    before = Progress({"late": 1}, watermark_ms=60, late=frozenset({"late"}))
    limits = replace(DRIFT_10, horizon_ms=horizon_ms, budget=Budget(rows=1))
    observed = Observed(before, {"late": Extent(0, 4)})
    assert plan(observed, limits, index, no_others).next_low_ms == reported_ms


def test_without_alignment_there_is_no_low():
    standing = Source({"a": log(0, 5)}).standing({"a": 0}, Limits(aligned=False))
    assert (standing.low_ms, standing.held_by) == (None, None)


def test_a_split_that_has_nothing_to_read_has_the_state_that_it_keeps_after_the_batch():
    logs = {"unread": log(0, 1), "caught up": log(0), "idle": log(0), "stopped": log(0), "complete": log(0)}
    logs["hollow"] = Log([], end=3)
    logs["complete"].complete = True
    positions = dict.fromkeys(logs, 1) | {"removed": 7, "hollow": 0}
    limits = Limits(max_drift_ms=10, stops={"stopped": 1})
    standing = Source(logs).standing(positions, limits, idle=("idle", "unread", "stopped"))
    assert standing.states == {
        "unread": SplitState.UNREAD,
        "caught up": SplitState.CAUGHT_UP,
        "idle": SplitState.IDLE,
        "stopped": SplitState.FINISHED,
        "complete": SplitState.FINISHED,
        "hollow": SplitState.CAUGHT_UP,
        "removed": SplitState.REMOVED,
    }
    assert (standing.spans.keys(), standing.hollow.keys()) == ({"unread"}, {"hollow"})


def test_positions_that_are_gone_are_lost_or_stepped_over():
    source = Source({"a": log(5, 6, start=4)})
    with pytest.raises(DataLossError, match=r"^positions 2 to 3 of split 'a' are gone"):
        source.standing({"a": 2})
    assert source.standing({"a": 2}, Limits(fail_on_data_loss=False)).starts == {"a": 4}


def test_a_split_at_its_stop_has_lost_nothing_of_what_was_deleted_behind_it():
    standing = Source({"a": log(5, 6, start=4)}).standing({"a": 2}, Limits(stops={"a": 2}))
    assert (standing.states, standing.spans) == ({"a": SplitState.FINISHED}, {})


def test_a_plan_leaves_the_index_so_that_another_can_follow_when_the_group_has_moved():
    source = Source({"a": log(0, 5, 12, 25), "b": log(3, 30)})
    observed = source.observed({"a": 0, "b": 0})
    held = plan(observed, DRIFT_10, source.index, lambda _: GroupBound(-20, -10, "another"))
    assert (held.ranges, held.low_ms, held.held_by) == ({}, -20, "another")
    free = plan(observed, DRIFT_10, source.index, lambda _: GroupBound(2, 12, "another"))
    assert {s: (r.start, r.end) for s, r in free.ranges.items()} == {"a": (0, 2), "b": (0, 1)}
    assert (free.held_by, free.group_bound_ms, free.next_low_ms) == ("a", 12, 12)
    again = Source(source.logs)
    assert plan(again.observed({"a": 0, "b": 0}), DRIFT_10, again.index).ranges == free.ranges


def test_an_idle_split_that_cannot_be_reached_is_not_the_low_that_the_group_learns():
    index = TimeIndex(KafkaLike({"a": log(0, 100, 500), "away": log(0)}))
    before = Progress({"a": 1, "away": 1}, watermark_ms=5, idle=frozenset({"away"}))
    extents = {"a": Extent(0, 3), "away": Extent(1, 1, available=False)}
    observed = Observed(before, extents, ("away",))
    assert plan(observed, DRIFT_10, index, no_others).next_low_ms == 500


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class SortedLogs(Peeking):
    """Splits in memory: for each, the event times of its records in order; positions count from 0."""

    def __init__(self, times):
        self.times = times
        self.extents = {s: Extent(0, len(of_split)) for s, of_split in times.items()}

    def peek(self, positions, _horizon):
        times = self.times
        return {s: Head(p, times[s][p]) if p < len(times[s]) else None for s, p in positions.items()}

    def latest(self, ends, _horizon):
        return {s: self.times[s][end - 1] if end else None for s, end in ends.items()}


class LookupLogs(SortedLogs):
    """Splits in memory with an index by time."""

    def lookup(self, event_time_ms, splits):
        heads = {}
        for split in splits:
            times = self.times[split]
            position = bisect_left(times, event_time_ms)
            heads[split] = Head(position, times[position]) if position < len(times) else None
        return heads


def smooth(dice, count):
    return list(accumulate(int(dice.expovariate(count / DAY_MS)) for _ in range(count)))


def bursty(dice, count):
    bursts = [dice.randrange(DAY_MS) for _ in range(6)]
    times = [dice.choice(bursts) + dice.randrange(60_000) for _ in range(count * 3 // 4)]
    return sorted(times + [dice.randrange(DAY_MS) for _ in range(count // 4)])


def hourly(dice, count):
    return sorted(HOUR_MS * dice.randrange(24) + dice.choice([0, 0, dice.randrange(HOUR_MS)]) for _ in range(count))


def requests(kind, shape, limits):
    """Return the mean number of lookups and peeks in a plan of a cold planner, over a back-fill."""
    dice = random.Random(7)
    logs = kind({f"p{i}": shape(dice, 5_000) for i in range(8)})
    progress = Progress(dict.fromkeys(logs.times, 0))
    lookups, peeks = [], []
    while True:
        index = TimeIndex(logs)
        planned = plan(Observed(progress, logs.extents, frozenset(logs.times)), limits, index)
        if not planned.ranges:
            assert progress.positions == dict.fromkeys(logs.times, 5000)
            return mean(lookups), mean(peeks)
        lookups.append(index.lookups)
        peeks.append(index.peeks)
        progress = planned.progress


@pytest.mark.parametrize(("shape", "most"), [(smooth, 1.5), (bursty, 1.5), (hourly, 1.5)])
def test_a_slice_takes_one_lookup(shape, most):
    lookups, peeks = requests(LookupLogs, shape, Limits(max_drift_ms=HOUR_MS))
    assert lookups <= most
    assert peeks <= 3  # of the heads, and to confirm the answers: before them and at them


@pytest.mark.parametrize(("shape", "most"), [(smooth, 3), (bursty, 5), (hourly, 4)])
@pytest.mark.parametrize("drift_ms", [HOUR_MS, None])
def test_a_budget_takes_few_lookups(shape, most, drift_ms):
    limits = Limits(max_drift_ms=drift_ms, budget=Budget(rows=800))
    lookups, _ = requests(LookupLogs, shape, limits)
    assert lookups <= most + (drift_ms is None)  # without a drift, the latest event times are the bound


@pytest.mark.parametrize(("shape", "of_slice", "of_budget"), [(smooth, 13, 18), (bursty, 17, 30), (hourly, 16, 27)])
def test_without_an_index_a_slice_takes_few_rounds_of_peeks_from_cold_and_a_budget_reuses_them(
    shape, of_slice, of_budget
):
    for budget, most in ((Budget(), of_slice), (Budget(rows=800), of_budget)):
        _, peeks = requests(SortedLogs, shape, Limits(max_drift_ms=HOUR_MS, budget=budget))
        assert peeks <= most
