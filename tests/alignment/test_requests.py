"""The cost of plans, in requests to the source."""

import random
from bisect import bisect_left
from itertools import accumulate
from statistics import mean

import pytest

from tidegate.alignment.budget import Budget
from tidegate.alignment.index import Peeking, TimeIndex
from tidegate.alignment.plan import Limits, Observed, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Head

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
