"""From an enumerator to the offsets that Spark asks for."""

from datetime import timedelta

import pytest

from tests.support.logs import DRIFT_10, Clock, Logs, caught_up, coordinator, drain, read
from tidegate.alignment.budget import Cost, split_rows
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.source_progress import SourceProgress, utc_time
from tidegate.errors import CheckpointError, ContractError


def test_the_first_offset_fixes_the_starts_and_differs_even_when_there_is_nothing():
    logs = Logs(a=[1, 2], b=[])
    logs.starting = "latest"
    run = coordinator(logs)
    first = run.latest_offset(INITIAL_OFFSET)
    assert first["starts"] == {"a": 2, "b": 0}
    assert first != INITIAL_OFFSET
    assert read(run, INITIAL_OFFSET, first) == []
    logs.times["a"] += [3]
    again = coordinator(logs)
    assert read(again, first, again.latest_offset(first)) == [("a", 2)]


def test_starts_stand_in_the_offset_once():
    run = coordinator(Logs(a=[1, 20]), watermarks=DRIFT_10)
    first = run.latest_offset(INITIAL_OFFSET)
    second = run.latest_offset(first)
    assert first["starts"] == {"a": 0}
    assert "starts" not in second


def test_a_replayed_batch_has_the_same_tasks_whatever_came_since_and_whatever_size_records_are_taken_to_have():
    """The mean size of records is not kept; files of bad records are named after the ranges of tasks."""

    class Sized(Logs):
        positions_are_rows, row_bytes = True, 1

        def cost(self, ranges):
            rows = split_rows(ranges).rows
            return Cost(rows, rows * self.row_bytes)

    logs = Sized(a=range(300), b=range(20_000))
    run = coordinator(logs)
    end = run.latest_offset(INITIAL_OFFSET)
    before = run.tasks(INITIAL_OFFSET, end)
    logs.row_bytes, logs.starting = 1_000_000, "latest"
    logs.times["a"] += range(100)
    assert coordinator(logs).tasks(INITIAL_OFFSET, end) == before
    assert len(before) > 1


def test_the_broker_is_asked_anew_by_every_plan_but_ten_times_a_second_at_most_while_nothing_comes():
    logs, clock = Logs(a=[1]), Clock()
    run, last = caught_up(coordinator(logs, clock))
    asked, begun = logs.asked["extents"], clock.now
    for _ in range(20):
        run.latest_offset(last)
    assert logs.asked["extents"] - asked == 20
    assert clock.now - begun >= 1.9
    logs.times["a"] += [2]
    assert read(run, last, run.latest_offset(last)) == [("a", 1)]


def test_a_connectors_own_figures_are_in_the_report():
    logs = Logs(a=[1, 100])
    logs.metrics = lambda: {"approximateQueueSize": 7}
    logs.overshoot_ms = lambda ranges, bound_ms: bound_ms + len(ranges)
    logs.positions_are_rows, logs.cost = False, lambda ranges: Cost(4, 400, 2) if ranges else Cost(0, 0, 0)
    logs.own_progress = lambda positions, ends: {"low": "hidden", "a": [positions["a"], ends["a"]]}
    run = coordinator(logs, watermarks=DRIFT_10)
    run.latest_offset(INITIAL_OFFSET)
    report = run.source_progress()
    assert (report["metrics"], report["overshoot"], report["a"]) == ({"approximateQueueSize": 7}, 12, [1, 2])
    said = SourceProgress.from_json(report)
    assert (said.low, said.held_by, said.planned_rows) == (utc_time(1), "a", 4)
    assert (said.num_files_outstanding, said.num_bytes_outstanding, said.rows_remaining) == (2, 400, 4)


def test_a_duration_that_python_cannot_hold_becomes_its_limit():
    logs, clock = Logs(b=[0]), Clock()
    logs.times["a"] = range(2**62)
    logs.latest = lambda ends, horizon: {split: end - 1 for split, end in ends.items()}
    logs.overshoot_ms = lambda ranges, bound_ms: 2**63 - 1
    run = coordinator(logs, clock, watermarks=DRIFT_10)
    start = {**INITIAL_OFFSET, "source": "memory", "positions": {"a": 2**61, "b": 0}}
    run.latest_offset(start)
    clock.sleep(50)
    logs.begins = {"a": 1}
    run.latest_offset(start)
    report, longest_ms = run.source_progress(), timedelta.max // timedelta(milliseconds=1)
    assert (report["overshoot"], report["timeToDeletion"]) == (longest_ms, {"a": longest_ms})


def test_a_snapshot_is_given_back_to_the_next_run():
    logs, restored = Logs(a=[1]), []
    logs.state = {"cluster": "x"}
    _, last = drain(coordinator(logs, restored=restored), INITIAL_OFFSET)
    coordinator(logs, restored=restored).latest_offset(last)
    assert restored == [None, {"cluster": "x"}]


def test_an_offset_of_another_source_is_refused():
    with pytest.raises(CheckpointError, match="belongs to the source 'other'"):
        coordinator(Logs()).latest_offset({**INITIAL_OFFSET, "source": "other", "positions": {}})


def test_a_batch_query_reads_from_the_starts_to_the_stops():
    logs = Logs(a=range(10), b=range(5), c=[])
    logs.ends = {"a": 7}
    tasks, _ = coordinator(logs).everything()
    assert sorted((r.split_id, r.start, r.end) for task in tasks for r in task.ranges) == [("a", 0, 7), ("b", 0, 5)]


def test_the_report_says_where_every_split_stands():
    run = coordinator(Logs(a=[1, 5, 30], b=[100]), watermarks=DRIFT_10)
    assert run.source_progress() is None
    run.latest_offset(INITIAL_OFFSET)
    report = run.source_progress()
    assert {name: report[name] for name in ("watermark", "bound", "low", "heldBy")} == {
        "watermark": 10,
        "bound": 11,
        "low": 1,
        "heldBy": "a",
    }
    assert (report["splits"], report["rowsRemaining"]) == ({"paused": 1, "reading": 1}, 2)
    assert (report["mostBehind"][:2], set(report["paused"])) == (["a", 1], {"b"})
    assert report["bySplit"] == {"a": ["reading", 30, 1], "b": ["paused", 100, 1]}


def test_the_report_of_many_splits_counts_them_only():
    run = coordinator(Logs(**{f"s{i}": [1] for i in range(101)}))
    run.latest_offset(INITIAL_OFFSET)
    assert "bySplit" not in run.source_progress()
    assert run.source_progress()["splits"] == {"reading": 101}


def test_an_enumerator_that_cannot_be_peeked_at_is_refused():
    class Blind(Logs):
        peek = None

    with pytest.raises(ContractError, match="has no peek"):
        coordinator(Blind(a=[1])).latest_offset(INITIAL_OFFSET)


def test_a_batch_is_put_off_until_there_are_enough_rows_but_not_for_ever():
    logs, clock = Logs(a=[1, 2]), Clock()
    run = coordinator(logs, clock, max_trigger_delay_s=60)
    start = run.latest_offset(INITIAL_OFFSET, min_rows=5)
    logs.times["a"] += [3, 4]
    assert run.latest_offset(start, min_rows=5) == start
    clock.sleep(61)
    assert read(run, start, end := run.latest_offset(start, min_rows=5)) == [("a", 2), ("a", 3)]
    logs.times["a"] += range(5, 10)
    assert len(read(run, end, run.latest_offset(end, min_rows=5))) == 5


def test_late_rows_count_once_however_often_their_batch_is_put_off():
    logs, clock = Logs(a=[100, 200]), Clock()
    run = coordinator(logs, clock, max_trigger_delay_s=60)
    start = drain(run, INITIAL_OFFSET)[1]
    logs.times["a"] += [50, 60]
    for _ in range(3):
        assert run.latest_offset(start, min_rows=5) == start
        waiting = run.source_progress()
        assert (waiting["lateRowsTotal"], waiting["plannedRows"], waiting["rowsRemaining"]) == (0, 0, 2)
    clock.sleep(61)
    run.latest_offset(start, min_rows=5)
    assert (run.source_progress()["lateRowsTotal"], run.source_progress()["rowsRemaining"]) == (2, 0)


def test_a_slice_that_the_drift_keeps_small_is_not_put_off_for_want_of_rows():
    run = coordinator(Logs(a=[0, 100, 200, 300]), watermarks=DRIFT_10)
    start = run.latest_offset(INITIAL_OFFSET)
    assert read(run, start, run.latest_offset(start, min_rows=3)) == [("a", 1)]
