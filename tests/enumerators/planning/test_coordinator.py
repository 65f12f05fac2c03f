"""From an enumerator to the offsets that Spark asks for: completeness, generators, hollow stretches, groups."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import DRIFT_10, WALL, Clock, Logs, caught_up, coordinator, drain, read
from tidegate.alignment.budget import Budget, Cost, split_rows
from tidegate.alignment.generators import AscendingTimestampsWatermarks
from tidegate.alignment.plan import Plan, Progress, SplitPlan, SplitState
from tidegate.alignment.splits import Head
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.contract import Completeness
from tidegate.enumerators.planning.coordinator import holding_member
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.source_progress import SourceProgress, utc_time
from tidegate.errors import CheckpointError
from tidegate.readers.event_time.policy import EventTimePolicy


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


def test_a_connectors_figure_with_the_name_of_a_field_is_left_out_though_the_field_is_empty():
    logs = Logs(a=[1])
    own = {"orders": {"0": 1}, "metrics": {"lag": 1}}
    logs.own_progress = lambda positions, ends: {"generated": {"0": 1}, "row_stage": {"0": 1}, **own}
    run = coordinator(logs)
    run.latest_offset(INITIAL_OFFSET)
    report = run.source_progress()
    assert report.items() >= own.items()
    assert SourceProgress.from_json(report).generated is None


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


class MarkedLogs(Logs):
    """Logs whose test sets the time up to which they are complete."""

    until_ms = next_ms = None

    def completeness(self):
        return Completeness(self.until_ms, self.next_ms)


def planner(logs):
    return coordinator(logs, by_completeness=True, discovery_interval_s=0)


def test_without_anything_complete_there_is_no_watermark():
    run = planner(MarkedLogs(a=[10, 20]))
    end = run.latest_offset(INITIAL_OFFSET)
    assert "watermark" not in end
    assert run.source_progress()["completeness"] == {"until": None, "heldFrom": None}


def test_what_is_complete_and_read_is_the_watermark_also_past_the_last_row():
    logs = MarkedLogs(a=[10, 20])
    run = planner(logs)
    end = run.latest_offset(INITIAL_OFFSET)
    logs.until_ms, logs.next_ms = 99, 100
    assert run.latest_offset(end)["watermark"] == 99
    assert run.source_progress()["completeness"] == {"until": 99, "heldFrom": 100}


def test_a_split_that_comes_late_holds_until_its_rows_that_are_in_time_are_read():
    logs = MarkedLogs(a=[10, 20])
    logs.until_ms = 50
    run = planner(logs)
    end = run.latest_offset(INITIAL_OFFSET)
    logs.times["b"] = [5, 7, 60]
    logs.until_ms = 70
    watermarks = []
    for _ in range(3):
        end = run.latest_offset(end, Budget(rows=1))
        watermarks.append(end["watermark"])
    assert watermarks == [50, 50, 70]


TIMES = st.lists(st.integers(0, 50), min_size=1, max_size=8).map(sorted)


@given(TIMES, TIMES, st.integers(1, 4), st.lists(st.integers(0, 60), max_size=6).map(sorted))
def test_the_watermark_passes_neither_unread_rows_nor_what_is_complete(a, b, rows, complete):
    logs, start, done = MarkedLogs(a=a, b=b), INITIAL_OFFSET, set()
    run = planner(logs)
    for until_ms in [*complete, *[60] * 20]:
        logs.until_ms = until_ms
        end = run.latest_offset(start, Budget(rows=rows))
        if end != start:
            done |= set(read(run, start, end))
        unread = [times[at] for s, times in logs.times.items() for at in range(len(times)) if (s, at) not in done]
        assert end["watermark"] <= until_ms
        assert all(at_ms > end["watermark"] for at_ms in unread)
        start = end
    assert start["watermark"] == 60


class Ignoring(Logs):
    """Has records not to align by, with None as their time; counts the records that were looked at."""

    looked_at = 0

    def peek(self, positions, horizon):
        return {s: self._first(s, position) for s, position in positions.items()}

    def _first(self, split, position):
        for at, time_ms in enumerate(self.times[split][position:], position):
            self.looked_at += 1
            if time_ms is not None:
                return Head(at, time_ms)
        return None

    def latest(self, ends, horizon):
        return {}

    def lookup(self, event_time_ms, splits):
        timed = {s: [(p, t) for p, t in enumerate(self.times[s]) if t is not None] for s in splits}
        return {s: next((Head(p, t) for p, t in records if t >= event_time_ms), None) for s, records in timed.items()}


def test_a_long_stretch_of_ignored_records_is_looked_through_once_also_across_a_restart():
    logs = Ignoring(a=[5, *[None] * 3000], b=[*range(100)])
    run = coordinator(logs, watermarks=DRIFT_10)
    records, end = drain(run, INITIAL_OFFSET)
    assert (end["positions"]["a"], end["hollow"]) == (3001, {"a": 1})
    once = logs.looked_at
    assert once < 12 * 3_000  # the search for the last record is the price: no source looks from its end
    for plan_again in (run, coordinator(logs, watermarks=DRIFT_10)):
        logs.times["a"] += [None] * 10
        records, end = drain(plan_again, end)
        assert [position for split, position in records if split == "a"] == [*range(len(logs.times["a"]))][-10:]
    assert logs.looked_at < once + 200


def test_what_was_left_out_is_looked_at_again_with_other_options():
    logs = Ignoring(a=[None] * 3000, b=[*range(100)])
    _, end = drain(coordinator(logs, watermarks=DRIFT_10, options_digest="by the header att"), INITIAL_OFFSET)
    assert end["hollow"] == {"a": 0}
    logs.times["a"] = [50] * 3000
    logs.times["b"] += range(100, 1000)
    same = drain(coordinator(logs, watermarks=DRIFT_10, options_digest="by the header att"), end)[1]
    assert same["positions"]["b"] == 1000
    other = drain(coordinator(logs, watermarks=DRIFT_10, options_digest="by the header at"), end)[1]
    assert other["positions"]["b"] < 200


ASCENDING = WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)


def watermarks(run, start, budget):
    """Return the watermark of each offset up to the end, and the last offset."""
    watermarks_ms = []
    while (end := run.latest_offset(start, budget)) != start:
        watermarks_ms.append(end.get("watermark"))
        start = end
    return watermarks_ms, start


def test_the_watermark_of_a_batch_is_what_generators_say_of_the_rows_before_it():
    run = coordinator(Logs(a=[10, 20, 30]), watermarks=ASCENDING)
    assert watermarks(run, INITIAL_OFFSET, Budget(rows=1))[0] == [None, 9, 19, 29]


def test_a_restart_at_any_offset_says_the_same():
    logs, budget = Logs(a=[10, 20, 30, 40], b=[5, 25, 35, 38]), Budget(rows=2)
    expected, _ = watermarks(coordinator(logs, watermarks=ASCENDING), INITIAL_OFFSET, budget)
    watermarks_ms, start = [], INITIAL_OFFSET
    while (end := coordinator(logs, watermarks=ASCENDING).latest_offset(start, budget)) != start:
        watermarks_ms.append(end.get("watermark"))
        start = end
    assert watermarks_ms == expected
    assert watermarks_ms[-1] == 37


def test_a_split_whose_next_row_is_in_the_future_holds_back_neither_the_watermark_nor_the_others():
    now_ms = int(WALL * 1000)
    times_ms = range(now_ms - 90, now_ms, 10)
    logs = Logs(a=times_ms, held=[now_ms - 90, now_ms + 1_000])
    strategy = ASCENDING.with_watermark_alignment(max_drift=timedelta(milliseconds=10))
    run = coordinator(
        logs,
        watermarks=strategy,
        event_times=EventTimePolicy(future="hold", max_future_skew_ms=0),
    )
    read, last = drain(run, INITIAL_OFFSET)
    assert len(read) == 10
    assert last["watermark"] == times_ms[-1] - 1


def test_a_restart_with_generators_for_the_first_time_keeps_the_watermark_until_all_splits_have_one():
    logs = Logs(a=[10, 20, 30], b=[15, 25, 35])
    _, last = drain(coordinator(logs, watermarks=WatermarkStrategy()), INITIAL_OFFSET)
    assert last["watermark"] == 29
    logs.times["a"] += [60]
    run = coordinator(logs, watermarks=ASCENDING)
    watermarks_ms, last = watermarks(run, last, Budget())
    assert watermarks_ms == [29]  # b has no watermark: rows that were read before are not shown to a generator
    logs.times["b"] += [50]
    watermarks_ms, last = watermarks(run, last, Budget())
    assert watermarks_ms == [29, 49]
    # Without generators the watermark is planned again, and goes on from its last value.
    logs.times["b"] += [70]
    watermarks_ms, _ = watermarks(coordinator(logs, watermarks=WatermarkStrategy()), last, Budget())
    assert watermarks_ms == [59]


def test_data_loss_that_is_accepted_costs_the_state_of_no_generator():
    logs = Logs(a=[10, 20, 30, 40], b=[11, 12, 13])
    run = coordinator(logs, watermarks=ASCENDING, fail_on_data_loss=False)
    first = run.latest_offset(INITIAL_OFFSET, Budget(rows=4))
    logs.begins["b"] = 3
    second = run.latest_offset(first)
    assert second["positions"] == {"a": 4, "b": 3}
    assert second["generators"]["unseen"].keys() == {s for s in "ab" if second["positions"][s] > first["positions"][s]}


PLANNED = Plan({}, {"a": 2}, Progress({"a": 1}), 50, "other", 60, 80, {"a": SplitPlan(SplitState.PAUSED)})


class Group:
    def name_of(self, member):
        return f"orders ({member})"


def test_a_member_holds_us_only_where_a_split_of_ours_is_paused_by_it():
    run = coordinator(Logs(), group=Group())
    assert (holding_member(PLANNED), run._holder_name(PLANNED)) == ("other", "orders (other)")
    by_a_split = replace(PLANNED, held_by="a")
    assert (holding_member(by_a_split), run._holder_name(by_a_split)) == (None, "a")
    assert holding_member(replace(PLANNED, splits={"a": SplitPlan(SplitState.READING)})) is None
