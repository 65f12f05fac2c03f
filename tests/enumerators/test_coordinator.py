"""From an enumerator to the offsets that Spark asks for."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enumerators.logs import WALL, Clock, Logs, coordinator, read
from tidegate.alignment.budget import Budget
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.checkpoint import INITIAL_OFFSET
from tidegate.errors import CheckpointError, ContractError, DataLossError, PositionGoneError

DRIFT_10 = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(milliseconds=10))
IDLE_AFTER_5_S = WatermarkStrategy().with_idleness(timedelta(seconds=5))


def all_records(logs):
    return sorted((split, p) for split, times in logs.times.items() for p in range(len(times)))


def drain(run, start):
    """Take batches until the offset repeats; return their records and the last offset."""
    found = []
    while (end := run.latest_offset(start)) != start:
        found += read(run, start, end)
        start = end
    return found, start


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


def test_a_source_without_any_split_still_gets_past_its_first_offset():
    logs = Logs()
    logs.starting = "latest"
    first = coordinator(logs).latest_offset(INITIAL_OFFSET)
    assert first != INITIAL_OFFSET
    assert coordinator(logs).latest_offset(first) == first
    logs.times["a"] = [1, 2]
    assert drain(coordinator(logs), first)[0] == [("a", 0), ("a", 1)]


def test_starts_stand_in_the_offset_once():
    run = coordinator(Logs(a=[1, 20]), watermarks=DRIFT_10)
    first = run.latest_offset(INITIAL_OFFSET)
    second = run.latest_offset(first)
    assert first["starts"] == {"a": 0}
    assert "starts" not in second


def test_when_nothing_came_the_start_is_returned_unchanged():
    run = coordinator(Logs(a=[1]))
    _, last = drain(run, INITIAL_OFFSET)
    assert run.latest_offset(last) is last


def test_a_replayed_batch_has_the_same_tasks_whatever_came_since():
    logs = Logs(a=range(100), b=range(50))
    run = coordinator(logs)
    end = run.latest_offset(INITIAL_OFFSET, Budget(rows=30))
    before = run.tasks(INITIAL_OFFSET, end)
    logs.times["a"] += range(100)
    logs.starting = "latest"
    assert coordinator(logs).tasks(INITIAL_OFFSET, end) == before


def test_the_broker_is_asked_anew_by_every_plan_but_ten_times_a_second_at_most_while_nothing_comes():
    logs, clock = Logs(a=[1]), Clock()
    run = coordinator(logs, clock)
    _, last = drain(run, INITIAL_OFFSET)
    asked, begun = logs.asked["extents"], clock.now
    for _ in range(20):
        run.latest_offset(last)
    assert logs.asked["extents"] - asked == 20
    assert clock.now - begun >= 1.9
    logs.times["a"] += [2]
    assert read(run, last, run.latest_offset(last)) == [("a", 1)]


def test_splits_are_discovered_once_per_interval_and_new_ones_read_from_their_beginning(caplog):
    logs, clock = Logs(a=[1, 2]), Clock()
    logs.starting = "latest"
    run = coordinator(logs, clock, discovery_interval_s=30)
    _, last = drain(run, INITIAL_OFFSET)
    logs.times["b"] = [1, 2, 3]
    clock.sleep(29)
    assert run.latest_offset(last) == last
    clock.sleep(1.1)
    found, _ = drain(run, last)
    assert found == [("b", 0), ("b", 1), ("b", 2)]
    assert "found new splits, read from their beginning: b" in caplog.text


def test_a_split_that_is_gone_ends_the_query():
    logs = Logs(a=[1, 2], b=[1])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    del logs.times["b"]
    with pytest.raises(DataLossError, match=r"split 'b', read up to position 1, exists no more; set failOnDataLoss"):
        coordinator(logs).latest_offset(last)


def test_without_fail_on_data_loss_a_split_that_is_gone_is_reported_and_goes_on_when_it_comes_back(caplog):
    logs = Logs(a=[1, 2], b=[1])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    del logs.times["b"]
    logs.times["a"] += [3]
    logs.times["c"] = [1]
    run = coordinator(logs, fail_on_data_loss=False)
    end = run.latest_offset(last)
    assert sorted(read(run, last, end)) == [("a", 2), ("c", 0)]
    assert run.report()["splits"]["removed"] == 1
    assert "no longer finds splits, read no further: b" in caplog.text
    logs.times["b"] = [1, 2]
    run = coordinator(logs)
    assert read(run, end, run.latest_offset(end)) == [("b", 1)]


def test_a_split_that_is_only_not_wanted_any_more_is_reported_and_goes_on_when_it_is_wanted_again(caplog):
    logs = Logs(a=[1, 2], b=[1])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    times = logs.times.pop("b")
    logs.lost = lambda removed: []
    run = coordinator(logs)
    _, last = drain(run, last)
    assert last["positions"] == {"a": 2, "b": 1}
    assert "no longer finds splits, read no further: b" in caplog.text
    logs.times["b"] = [*times, 2]
    assert drain(coordinator(logs), last)[0] == [("b", 1)]


def test_a_split_whose_records_are_all_read_may_be_forgotten():
    logs = Logs(a=[1, 2], b=[1])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    del logs.times["b"]
    logs.forget = lambda removed: [split for split, position in removed.items() if position == 1]
    assert coordinator(logs).latest_offset(last)["positions"] == {"a": 2}


def test_of_splits_that_come_and_go_for_ever_nothing_is_kept():
    logs, clock = Logs(), Clock()
    logs.forget = list
    run = coordinator(logs, clock, discovery_interval_s=1)
    start = INITIAL_OFFSET
    for number in range(20):
        logs.times = {f"split-{number}": [number]}
        clock.sleep(2)
        start = run.latest_offset(start)
    assert run._stops == {"split-19": None}


def test_a_split_that_may_come_back_keeps_its_configured_end():
    logs, clock = Logs(a=[1], b=[1, 2]), Clock()
    logs.ends = {"a": 1, "b": 1}
    logs.lost = lambda removed: []
    run = coordinator(logs, clock, discovery_interval_s=1)
    _, last = drain(run, INITIAL_OFFSET)
    del logs.times["b"]
    clock.sleep(2)
    assert run.latest_offset(last)["ended"]


def test_a_connectors_own_figures_are_in_the_report():
    logs = Logs(a=[1])
    logs.metrics = lambda: {"approximateQueueSize": 7}
    run = coordinator(logs)
    run.latest_offset(INITIAL_OFFSET)
    assert run.report()["metrics"] == {"approximateQueueSize": 7}


def test_a_bounded_run_takes_no_split_for_idle_that_gets_more_behind_its_end():
    logs, clock = Logs(a=[0, 100], b=[0]), Clock()
    run = coordinator(logs, clock, watermarks=replace(DRIFT_10, idle_timeout=timedelta(seconds=5)))
    run.bound_run()
    start = run.latest_offset(INITIAL_OFFSET)
    logs.times["b"] += [50]
    run.latest_offset(start)
    clock.sleep(10)
    end = run.latest_offset(start)
    assert "idle" not in end
    assert end["watermark"] < 50


def test_an_end_that_an_open_transaction_takes_back_is_waited_for():
    logs = Logs(a=[1, 2, 3])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    whole, logs.times["a"], logs.unsettled = logs.times["a"], [1], {"a"}
    run = coordinator(logs)
    assert run.latest_offset(last) == last
    logs.times["a"], logs.unsettled = [*whole, 4], set()
    assert read(run, last, run.latest_offset(last)) == [("a", 3)]


def test_a_snapshot_is_given_back_to_the_next_run():
    logs, restored = Logs(a=[1]), []
    logs.state = {"cluster": "x"}
    _, last = drain(coordinator(logs, restored=restored), INITIAL_OFFSET)
    coordinator(logs, restored=restored).latest_offset(last)
    assert restored == [None, {"cluster": "x"}]


def test_an_offset_of_another_source_is_refused():
    with pytest.raises(CheckpointError, match="belongs to the source 'other'"):
        coordinator(Logs()).latest_offset({"v": 1, "source": "other", "positions": {}})


class TestIdleness:
    def idle(self, run, start):
        return run.latest_offset(start).get("idle", [])

    def test_a_split_is_idle_once_it_had_nothing_to_read_for_the_timeout(self):
        logs, clock = Logs(a=[1], b=[1]), Clock()
        run = coordinator(logs, clock, watermarks=IDLE_AFTER_5_S)
        _, last = drain(run, INITIAL_OFFSET)
        clock.sleep(4.0)
        assert self.idle(run, last) == []
        clock.sleep(1.1)
        assert self.idle(run, last) == ["a", "b"]

    def test_new_records_start_the_timer_anew(self):
        logs, clock = Logs(a=[1], b=[1]), Clock()
        run = coordinator(logs, clock, watermarks=IDLE_AFTER_5_S)
        _, last = drain(run, INITIAL_OFFSET)
        clock.sleep(4.0)
        logs.times["a"] += [2]
        _, last = drain(run, last)
        clock.sleep(2.0)
        assert self.idle(run, last) == ["b"]

    def test_a_split_with_an_open_transaction_is_never_idle(self):
        logs, clock = Logs(a=[1], b=[1]), Clock()
        logs.unsettled = {"b"}
        run = coordinator(logs, clock, watermarks=IDLE_AFTER_5_S)
        _, last = drain(run, INITIAL_OFFSET)
        clock.sleep(60)
        last = run.latest_offset(last)
        assert last["idle"] == ["a"]
        logs.unsettled = set()
        assert run.latest_offset(last) == last
        clock.sleep(6)
        assert self.idle(run, last) == ["a", "b"]

    def test_a_split_with_unread_records_is_never_idle(self):
        logs, clock = Logs(a=[1], b=[100]), Clock()
        run = coordinator(logs, clock, watermarks=DRIFT_10.with_idleness(timedelta(seconds=5)))
        first = run.latest_offset(INITIAL_OFFSET)
        assert first["positions"] == {"a": 1, "b": 0}
        assert run.latest_offset(first) == first
        clock.sleep(4)
        assert run.latest_offset(first) == first
        clock.sleep(2)
        end = run.latest_offset(first)
        assert end["idle"] == ["a"]
        assert end["positions"]["b"] == 1

    def test_a_split_that_was_idle_before_a_restart_still_is(self):
        logs, clock = Logs(a=[1], b=[1]), Clock()
        run = coordinator(logs, clock, watermarks=IDLE_AFTER_5_S)
        _, last = drain(run, INITIAL_OFFSET)
        clock.sleep(6)
        last = run.latest_offset(last)
        assert last["idle"] == ["a", "b"]
        again = coordinator(logs, Clock(), watermarks=IDLE_AFTER_5_S)
        assert again.latest_offset(last) == last


class TestAvailableNow:
    def test_what_comes_meanwhile_is_left_to_the_next_run(self):
        logs, clock = Logs(a=range(0, 100, 5), b=range(50, 100, 5)), Clock()
        run = coordinator(logs, clock, watermarks=DRIFT_10)
        expected = all_records(logs)
        run.bound_run()
        first = run.latest_offset(INITIAL_OFFSET)
        found = read(run, INITIAL_OFFSET, first)
        logs.times["a"] += range(100, 200, 5)
        logs.times["c"] = [1, 2, 3]
        clock.sleep(100)
        rest, last = drain(run, first)
        assert sorted(found + rest) == expected
        assert "c" not in last["positions"]
        following = coordinator(logs, clock, watermarks=DRIFT_10)
        following.bound_run()
        more, _ = drain(following, last)
        assert sorted(found + rest + more) == all_records(logs)

    def test_a_minimum_of_rows_does_not_hold_it_up(self):
        run = coordinator(Logs(a=[1, 2, 30]), watermarks=DRIFT_10)
        run.bound_run()
        first = run.latest_offset(INITIAL_OFFSET, min_rows=100)
        assert read(run, first, run.latest_offset(first, min_rows=100)) == [("a", 2)]


def test_a_batch_with_fewer_rows_than_the_minimum_waits():
    logs = Logs(a=[1])
    run = coordinator(logs)
    first = run.latest_offset(INITIAL_OFFSET, min_rows=10)
    logs.times["a"] += range(9)
    assert run.latest_offset(first, min_rows=10) == first
    logs.times["a"] += [9]
    assert len(read(run, first, run.latest_offset(first, min_rows=10))) == 10


def test_a_batch_query_reads_from_the_starts_to_the_stops():
    logs = Logs(a=range(10), b=range(5), c=[])
    logs.ends = {"a": 7}
    tasks, _ = coordinator(logs).everything()
    assert sorted((r.split_id, r.start, r.end) for task in tasks for r in task.ranges) == [("a", 0, 7), ("b", 0, 5)]


def test_deleted_records_end_the_query_unless_loss_is_accepted():
    logs = Logs(a=range(10))
    end = coordinator(logs).latest_offset(INITIAL_OFFSET, Budget(rows=3))
    logs.begins = {"a": 5}
    with pytest.raises(DataLossError, match="positions 3 to 4 of split 'a' are gone"):
        coordinator(logs).latest_offset(end)
    lenient = coordinator(logs, fail_on_data_loss=False)
    rest = read(lenient, end, lenient.latest_offset(end))
    assert [p for _, p in rest if p >= 5] == [5, 6, 7, 8, 9]


def test_the_report_says_where_every_split_stands():
    run = coordinator(Logs(a=[1, 5, 30], b=[100]), watermarks=DRIFT_10)
    assert run.report() is None
    run.latest_offset(INITIAL_OFFSET)
    report = run.report()
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
    assert "bySplit" not in run.report()
    assert run.report()["splits"] == {"reading": 101}


def test_closing_it_closes_the_enumerator_once():
    logs = Logs(a=[1])
    run = coordinator(logs)
    run.close()
    run.latest_offset(INITIAL_OFFSET)
    run.close()
    run.close()
    assert logs.asked["close"] == 1


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


def test_a_slice_that_the_drift_keeps_small_is_not_put_off_for_want_of_rows():
    run = coordinator(Logs(a=[0, 100, 200, 300]), watermarks=DRIFT_10)
    start = run.latest_offset(INITIAL_OFFSET)
    assert read(run, start, run.latest_offset(start, min_rows=3)) == [("a", 1)]


class TrimmedMeanwhile(Logs):
    """Loses records between its extents and the first peek."""

    def peek(self, positions):
        if any(position < self.begins.get(s, 0) for s, position in positions.items()):
            raise PositionGoneError("position 0 of a does not exist")
        return super().peek(positions)

    def extents(self, splits):
        extents = super().extents(splits)
        self.begins = {"a": 2}
        return extents


def test_records_that_are_deleted_while_a_plan_is_made_are_skipped_without_fail_on_data_loss():
    run = coordinator(TrimmedMeanwhile(a=[1, 2, 3]), fail_on_data_loss=False)
    assert read(run, INITIAL_OFFSET, end := run.latest_offset(INITIAL_OFFSET)) == [("a", 2)]
    assert end["starts"] == {"a": 2}


def test_records_that_are_deleted_while_a_plan_is_made_end_the_query():
    logs = TrimmedMeanwhile(a=[1, 2, 3])
    start = {"v": 1, "source": "memory", "positions": {"a": 0}}
    with pytest.raises(DataLossError, match="positions 0 to 1 of split 'a' are gone"):
        coordinator(logs).latest_offset(start)


def test_splits_that_are_all_at_their_ends_end_the_source_unless_the_ends_move():
    logs = Logs(a=[1, 2, 3], b=[5])
    logs.ends = {"a": 2, "b": 1}
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    assert (last["ended"], last["watermark"], last["positions"]) == (True, 4, {"a": 2, "b": 1})
    logs.ends = {"a": 3, "b": 1}
    _, last = drain(coordinator(logs), last)
    assert (last["ended"], last["positions"]) == (True, {"a": 3, "b": 1})


def test_a_split_waits_where_its_next_time_lies_too_far_ahead_of_the_clock():
    now_ms, clock = int(WALL * 1000), Clock()
    run = coordinator(Logs(a=[now_ms, now_ms + 60_001, now_ms + 5], b=[now_ms + 1]), clock, hold_beyond_ms=60_000)
    found, last = drain(run, INITIAL_OFFSET)
    assert found == [("a", 0), ("b", 0)]
    clock.sleep(1)
    assert drain(run, last)[0] == [("a", 1), ("a", 2)]


def test_a_paused_split_that_retention_comes_near_is_named_with_the_time_left(caplog):
    logs, clock = Logs(a=range(1000), b=[0]), Clock()
    run = coordinator(logs, clock, watermarks=DRIFT_10)
    _, last = drain(run, INITIAL_OFFSET)
    assert (last["positions"]["a"], run.report()["secondsToDeletion"]) == (10, {})
    clock.sleep(50)
    logs.begins = {"a": 5}
    run.latest_offset(last)
    left = run.report()["secondsToDeletion"]["a"]
    assert 40 < left < 60
    assert "memory will lose unread records of a in about 0 minutes to retention" in caplog.text


growth = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 60), max_size=6), max_size=3)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(growth, st.booleans(), st.integers(0, 4)), max_size=8),
    st.sampled_from([None, 1, 10]),
    st.sampled_from([None, 1, 3]),
)
def test_whatever_grows_and_whenever_it_restarts_every_record_is_read_once(steps, drift_ms, rows):
    strategy = WatermarkStrategy(max_drift=None if drift_ms is None else timedelta(milliseconds=drift_ms))
    logs, clock = Logs(a=[], b=[]), Clock()

    def begin():
        return coordinator(logs, clock, watermarks=strategy, discovery_interval_s=1)

    run, offset, found = begin(), INITIAL_OFFSET, []
    for grown, restart, batches in [*steps, ({}, True, 200)]:
        for split, times in grown.items():
            logs.times.setdefault(split, []).extend(times)
        if restart:
            run = begin()
        for _ in range(batches):
            clock.sleep(61)  # long enough for new splits to be found and quiet ones to become idle
            end = json.loads(json.dumps(run.latest_offset(offset, Budget(rows=rows))))
            found += read(run, offset, end)
            assert all(end["positions"][s] >= p for s, p in offset.get("positions", {}).items())
            assert (end.get("watermark") or 0) >= (offset.get("watermark") or 0) or "watermark" not in offset
            offset = end
    assert sorted(found) == all_records(logs)
