"""Splits that are late, or hold no record to align by, share the batches of others, and hold back nobody."""

from dataclasses import replace
from itertools import accumulate

import pytest

from tests.alignment.logs import Entry, KafkaLike, Log, PeekOnly, log
from tests.alignment.model import World
from tidegate.alignment.budget import Budget, Cost
from tidegate.alignment.plan import Limits

YEAR_2099_MS = 4_070_908_800_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def in_bytes(ranges):
    """As Kafka's: rows, and bytes by their mean size."""
    count = sum(r.end - r.start for r in ranges.values())
    return Cost(rows=count, bytes=64 * count)


def rows(planned):
    return sum(r.end - r.start for r in planned.ranges.values())


@pytest.mark.parametrize("source", [KafkaLike, PeekOnly])
def test_a_partition_of_ignored_records_neither_moves_the_common_cut_nor_starves(source):
    every_10_s = list(range(0, 2 * HOUR_MS, 10_000))
    crowded_start = [*accumulate([MINUTE_MS // 360] * 360), *range(MINUTE_MS, 2 * HOUR_MS, 10_000)]
    ignored = Log([Entry(position, YEAR_2099_MS, seen=False) for position in range(2000)], end=2000)
    logs = {"even": log(*every_10_s), "crowded": log(*crowded_start), "ignored": ignored}
    world = World(logs, Limits(max_drift_ms=HOUR_MS, budget=Budget(rows=200)), source=source)
    world.drain()
    assert world.read("even") == every_10_s
    assert world.read("crowded") == crowded_start
    positions_read = [planned.progress.positions["ignored"] for planned in world.plans]
    assert positions_read[:3] == sorted(set(positions_read[:3])), "the ignored records starve"
    assert all(rows(planned) <= 200 for planned in world.plans)


@pytest.mark.parametrize("budget", [None, 900])
def test_splits_that_are_probed_are_cut_at_one_time_to_the_record(budget):
    crowded_end, crowded_begin = (
        [int((40_000 * i) ** 0.5) for i in range(4_000)],
        [i * i // 1_000 for i in range(4_000)],
    )
    limits = Limits(max_drift_ms=3_000, budget=Budget(rows=budget))
    world = World({"a": log(*crowded_end), "b": log(*crowded_begin)}, limits, source=PeekOnly)
    world.quiet.update(world.logs)
    while world.plan().ranges:
        unread = [left[0].time_ms for split in world.logs if (left := world.unread(split))]
        read = [times[-1] for split in world.logs if (times := world.read(split))]
        assert max(read) <= min(unread, default=max(read)), "a split is read further than what another one still holds"
    assert (world.read("a"), world.read("b")) == (crowded_end, crowded_begin)


@pytest.mark.parametrize("source", [KafkaLike, PeekOnly])
def test_a_late_partition_shares_the_budget_with_those_that_are_not(source):
    world = World(
        {"a": log(*range(100_000, 110_000, 10)), "b": log(*range(100_000, 110_000, 10))},
        Limits(max_drift_ms=5_000, budget=Budget(rows=100)),
        source=source,
    )
    world.plan()
    world.discover("late", log(*range(0, 90_000, 90)))
    before = dict(world.progress.positions)
    while world.unread("late") and world.unread("a"):
        planned = world.plan()
        assert planned.splits["late"].late
        assert planned.splits["late"].exact is (source is KafkaLike)
        after = planned.progress.positions
        assert after["a"] + after["b"] > before["a"] + before["b"], "a late split has all of the budget"
        assert after["late"] > before["late"], "a late split starves"
        before = dict(after)


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


def test_the_watermark_does_not_wait_for_a_late_split_and_does_from_where_it_is_aligned():
    world = World({"a": log(*range(100, 160))}, Limits(max_drift_ms=1_000, budget=Budget(rows=10)))
    world.plan()
    world.discover("late", log(*range(50, 80), *range(150, 170)))
    marks = [world.plan().progress.watermark_ms for _ in range(8)]
    assert world.unread("a")
    assert marks == sorted(set(marks)), "the watermark stands still for a late split"
    world.drain()
    assert world.read("late") == [*range(50, 80), *range(150, 170)]
    assert not world.plans[-1].splits["late"].late


def test_the_watermark_waits_for_the_first_row_of_a_late_split_that_is_in_time():
    world = World({"a": log(100, 109, readable=False)}, Limits(budget=Budget(rows=3)))
    world.logs["a"].append(1)
    world.plan()
    world.logs["a"].append(1)
    world.discover("late", log(23, 63, 103))
    marks = [world.plan().progress.watermark_ms for _ in range(2)]
    assert (world.read("a"), world.read("late")) == ([100, 109], [23, 63, 103])
    assert marks == [102, 102]


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
