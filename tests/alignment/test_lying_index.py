"""Indexes whose answers are not the first record at or after the time, as those of some brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.alignment.logs import Entry, KafkaLike, Log, log
from tests.alignment.model import World
from tidegate.alignment.budget import Budget
from tidegate.alignment.plan import Limits
from tidegate.alignment.splits import Head


class Lying(KafkaLike):
    """Answers with ``lie(log, time_ms)`` instead of the first entry."""

    def __init__(self, lie):
        super().__init__({})
        self._lie = lie

    def __call__(self, logs):
        self.logs = logs
        return self

    def lookup(self, event_time_ms, splits):
        return {split: self._lie(self.logs[split], event_time_ms) for split in splits}


def none(_log, _time_ms):
    return None


def much_later(of_log, time_ms):
    later = [e for e in of_log.records(0, of_log.end) if e.time_ms >= time_ms + 200]
    return Head(later[0].position, later[0].time_ms) if later else None


def last_of_equal_times(of_log, time_ms):
    found = [e for e in of_log.records(0, of_log.end) if e.time_ms >= time_ms]
    same = [e for e in found if e.time_ms == found[0].time_ms]
    return Head(same[-1].position, same[-1].time_ms) if same else None


def too_early(of_log, time_ms):
    before = [e for e in of_log.records(0, of_log.end) if e.time_ms < time_ms]
    return Head(before[-1].position, before[-1].time_ms) if before else None


def of_another_time(of_log, time_ms):
    found = KafkaLike({"a": of_log}).lookup(time_ms, ["a"])["a"]
    return found and Head(found.position, found.event_time_ms + 1)


LIES = [none, much_later, last_of_equal_times, too_early, of_another_time]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("budget", [Budget(), Budget(rows=150)])
def test_a_slice_ends_at_the_bound_whatever_the_index_answers(lie, budget):
    times = sorted([*range(1000), *[500] * 9])
    limits = Limits(max_drift_ms=500, budget=budget)
    honest, lied_to = (
        World({"a": log(*times), "b": log(*range(0, 1000, 7))}, limits, source=source)
        for source in (KafkaLike, Lying(lie))
    )
    assert len(lied_to.plan().ranges) == 2
    honest.plan()
    if budget == Budget():
        assert lied_to.progress.positions == honest.progress.positions == {"a": 500, "b": 72}
    lied_to.drain()
    for planned in lied_to.plans:
        assert (
            planned.progress.bound_ms is None
            or planned.low_ms is None
            or (planned.progress.bound_ms <= planned.low_ms + 500)
        )
    assert lied_to.read("a") == times


def test_a_split_that_the_index_lied_about_is_counted_as_inexact_and_others_are_not():
    def lies_about_the_first(of_log, time_ms):
        return none(of_log, time_ms) if len(of_log.entries) == 1000 else last_of_equal_times(of_log, time_ms)

    world = World(
        {"a": log(*range(1000)), "b": log(*range(999))}, Limits(max_drift_ms=500), source=Lying(lies_about_the_first)
    )
    planned = world.plan()
    assert [planned.splits[s].exact for s in "ab"] == [False, True]
    assert world.progress.positions == {"a": 500, "b": 500}


def test_markers_and_holes_before_the_cut_make_no_doubt():
    entries = [Entry(at, at) for at in range(0, 1000, 90)]
    entries += [Entry(at + 1, at, seen=False) for at in range(0, 1000, 90)]
    world = World(
        {"a": Log(sorted(entries, key=lambda e: e.position), end=1100)}, Limits(max_drift_ms=500), source=KafkaLike
    )
    assert world.plan().splits["a"].exact
    assert world.read("a") == [*range(0, 500, 90)]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=40).map(sorted),
    st.lists(st.integers(0, 60), min_size=1, max_size=40).map(sorted),
    st.sampled_from(LIES),
    st.integers(1, 30),
    st.sampled_from([None, 5]),
)
def test_ordered_splits_are_cut_as_by_an_honest_index(first, second, lie, drift_ms, rows):
    limits = Limits(max_drift_ms=drift_ms, budget=Budget(rows=rows))
    world = World({"a": log(*first), "b": log(*second)}, limits, source=Lying(lie))
    world.quiet = {"a", "b"}
    done = {"a": 0, "b": 0}
    while True:
        before = world.progress
        unread = [t for s, times in (("a", first), ("b", second)) for t in times[done[s] :]]
        if world.plan().progress is before:
            break
        new = {s: world.read(s)[done[s] :] for s in "ab"}
        done = {s: len(world.read(s)) for s in "ab"}
        assert all(t < min(unread) + drift_ms for of_split in new.values() for t in of_split)
    assert (world.read("a"), world.read("b")) == (first, second)
