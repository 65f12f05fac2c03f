"""Bugs that others had, and some of our own, and how a query answers them.

Tests have the ids in their names: ``pytest -k 40499``.  Tests of a single plan are with the planner
(``tests/alignment/test_planner*.py``), tests of groups with the group folder.
"""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.logs import Clock, Logs, coordinator, drain, read
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import LateDataError

MS = timedelta(milliseconds=1)
DRIFT_10 = WatermarkStrategy(max_drift=10 * MS, idle_timeout=timedelta(seconds=5))


def drained(run, start=INITIAL_OFFSET):
    return drain(run, start)[1]


@pytest.mark.parametrize("seconds", [0, 100])
def test_flink_40499_at_the_configured_ends_time_is_over_also_when_all_are_idle_by_then(seconds):
    """A bounded source that was idle at its end never gave the last watermark."""
    logs, clock = Logs(a=[1, 2, 3], b=[5, 6], c=[]), Clock()
    logs.ends = {"a": 2, "b": 3, "c": 0}
    run = coordinator(logs, clock, watermarks=DRIFT_10)
    offset = drained(run)
    clock.sleep(seconds)
    offset = drained(run, offset)
    assert (offset.get("idle", []), "ended" in offset) == (["b"] if seconds else [], False)
    logs.times["b"] += [7]
    clock.sleep(seconds)
    offset = drained(run, offset)
    assert offset["ended"]
    assert "idle" not in offset
    clock.sleep(100)
    assert drained(coordinator(logs, clock, watermarks=DRIFT_10), offset) == offset


def woken(**settings):
    """Return the logs, a run and its offset: a is at 100, and the idle b just got the older records 50 and 60."""
    logs, clock = Logs(a=[1, 100], b=[1]), Clock()
    run = coordinator(logs, clock, watermarks=replace(DRIFT_10, max_drift=None), **settings)
    offset = drained(run)
    clock.sleep(6)
    offset = drained(run, offset)
    assert (offset["watermark"], offset["idle"]) == (99, ["a", "b"])
    logs.times["b"] += [50, 60]
    return logs, run, offset, clock


@pytest.mark.parametrize("restarted", [False, True])
def test_flink_40504_a_split_that_wakes_behind_the_watermark_is_delivered_counted_and_named(restarted):
    """A split that woke from idle was late, and nobody could see it."""
    logs, run, offset, clock = woken()
    if restarted:
        run = coordinator(logs, clock, watermarks=replace(DRIFT_10, max_drift=None))
    end = run.latest_offset(json.loads(json.dumps(offset)))
    assert read(run, offset, end) == [("b", 1), ("b", 2)]
    assert (run.source_progress()["lateRows"], run.source_progress()["lateSplits"]) == (2, ["b"])
    assert end["watermark"] == 99


def test_flink_32414_without_any_split_there_is_no_watermark_and_it_does_not_hang():
    """A source without a split gave neither a watermark nor the news that it has none, and held back all."""
    logs, clock = Logs(), Clock()
    run = coordinator(logs, clock, watermarks=DRIFT_10)
    first = run.latest_offset(INITIAL_OFFSET)
    assert not {"watermark", "bound", "ended", "idle"} & first.keys()
    clock.sleep(100)
    assert run.latest_offset(first) == first
    logs.times["a"] = [7, 8, 100]
    clock.sleep(100)
    end = run.latest_offset(first)
    assert read(run, first, end) == [("a", 0), ("a", 1)]


def test_beam_20908_what_was_caught_up_from_the_start_and_delivers_nothing_holds_the_others_until_it_is_idle():
    """A partition without a new record, begun at its end, pinned the watermark of all for good."""
    logs, clock = Logs(quiet=[1], busy=[100_000]), Clock()
    logs.starting = "latest"
    run = coordinator(logs, clock, watermarks=DRIFT_10)
    start = run.latest_offset(INITIAL_OFFSET)
    logs.times["busy"] += [100_001, 100_002]
    clock.sleep(4)
    held = run.latest_offset(start)
    assert (read(run, start, held), run.source_progress()["heldBy"]) == ([], "quiet")
    clock.sleep(1)
    end = run.latest_offset(held)
    assert (read(run, held, end), end["idle"]) == ([("busy", 1), ("busy", 2)], ["quiet"])
    assert end["watermark"] == 100_001


@pytest.mark.parametrize("seconds", [0, 4])
def test_flink_39073_and_40093_who_is_paused_stays_so_across_a_restart_and_does_not_become_idle(seconds):
    """A paused split was taken for idle, and then never resumed."""
    logs, clock = Logs(slow=[1, 2], fast=[100, 200]), Clock()
    offset = drained(coordinator(logs, clock, watermarks=DRIFT_10))
    for _ in range(3):
        clock.sleep(seconds)
        run = coordinator(logs, clock, watermarks=DRIFT_10)
        assert run.latest_offset(json.loads(json.dumps(offset))) == offset
        assert run.source_progress()["bySplit"]["fast"] == ["paused", 100, 2]
    clock.sleep(6)
    offset = run.latest_offset(offset)
    assert (offset["idle"], offset["positions"]["fast"]) == (["slow"], 1)


@pytest.mark.parametrize("restarted", [False, True])
def test_the_first_plan_of_a_run_reads_no_further_than_any_other(restarted):
    """Flink's alignment bounds no source before the first announcement, also after a restart: all read a burst."""
    logs = Logs(slow=range(0, 1000, 5), fast=range(100, 10_000, 5))
    run, offset, batches = coordinator(logs, watermarks=DRIFT_10), INITIAL_OFFSET, []
    for _ in range(6):
        if restarted:
            run = coordinator(logs, watermarks=DRIFT_10)
        end = run.latest_offset(offset)
        batches.append(read(run, offset, end))
        offset = end
    assert batches == [[("slow", 2 * i), ("slow", 2 * i + 1)] for i in range(6)]


def test_a_late_split_ends_the_query_where_it_must_not_come():
    _, run, offset, _ = woken(late_splits="fail")
    with pytest.raises(LateDataError, match="'b' was found with records of 50 ms, older than the source's watermark"):
        run.latest_offset(offset)


class TestGaps:
    """Bugs that random lives of queries found: splits that were late but not named, and a missed end."""

    def test_a_source_whose_last_records_were_deleted_unread_is_at_its_end_too(self):
        logs = Logs(a=[1, 2, 3])
        logs.ends, logs.begins = {"a": 1}, {"a": 2}
        assert drained(coordinator(logs)).get("ended")

    def test_an_idle_split_that_a_run_with_an_end_has_nothing_to_read_of_is_not_late(self, caplog):
        logs, _, offset, clock = woken()
        logs.times["b"], logs.ends = [1], {"a": 2, "b": 1}
        run = coordinator(logs, clock, watermarks=DRIFT_10)
        assert drained(run, offset)["ended"]
        assert (run.source_progress()["lateRows"], run.source_progress()["lateSplits"]) == (0, [])
        assert "behind the watermark" not in caplog.text

    def test_a_split_that_wakes_with_a_transaction_behind_the_watermark_is_late(self):
        logs, run, offset, _ = woken()
        logs.times["b"], logs.unsettled = [1], {"b"}
        offset = drained(run, offset)
        logs.times["b"], logs.unsettled = [1, 50, 60], set()
        run.latest_offset(offset)
        assert (run.source_progress()["lateRows"], run.source_progress()["lateSplits"]) == (2, ["b"])
