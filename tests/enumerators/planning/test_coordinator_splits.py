"""The coordinator where splits come, go, lose records or end."""

from datetime import timedelta

import pytest

from tests.support.logs import DRIFT_10, Clock, Logs, all_records, caught_up, coordinator, drain, read
from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import NEVER_MS
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.contract import Divergence
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, Offset
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.enumerators.planning.splits import Splits
from tidegate.errors import DataLossError, PositionGoneError, UnavailableError

IDLE_AFTER_5_S = WatermarkStrategy().with_idleness(timedelta(seconds=5))


def test_splits_are_discovered_once_per_interval_and_new_ones_read_from_their_beginning(caplog):
    logs, clock = Logs(a=[1, 2]), Clock()
    logs.starting = "latest"
    run, last = caught_up(coordinator(logs, clock, discovery_interval_s=30))
    logs.times["b"] = [1, 2, 3]
    clock.sleep(29)
    assert run.latest_offset(last) == last
    clock.sleep(1.1)
    records, _ = drain(run, last)
    assert records == [("b", 0), ("b", 1), ("b", 2)]
    assert "found new splits, read from their beginning: b" in caplog.text


def test_a_split_that_is_gone_ends_the_query():
    logs = Logs(a=[1, 2], b=[1])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    del logs.times["b"]
    with pytest.raises(DataLossError, match=r"split 'b', read up to position 1, no longer exists; set failOnDataLoss"):
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
    assert run.source_progress()["splits"]["removed"] == 1
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


def test_a_split_that_may_come_back_keeps_its_configured_end():
    logs, clock = Logs(a=[1], b=[1, 2]), Clock()
    logs.ends = {"a": 1, "b": 1}
    logs.lost = lambda removed: []
    run, last = caught_up(coordinator(logs, clock, discovery_interval_s=1))
    del logs.times["b"]
    clock.sleep(2)
    assert run.latest_offset(last)["ended"]


def test_an_end_that_an_open_transaction_takes_back_is_waited_for():
    logs = Logs(a=[1, 2, 3])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    whole, logs.times["a"], logs.unsettled = logs.times["a"], [1], {"a"}
    run = coordinator(logs)
    assert run.latest_offset(last) == last
    logs.times["a"], logs.unsettled = [*whole, 4], set()
    assert read(run, last, run.latest_offset(last)) == [("a", 3)]


def test_a_split_that_was_idle_before_a_restart_still_is():
    logs, clock = Logs(a=[1], b=[1]), Clock()
    run, last = caught_up(coordinator(logs, clock, watermarks=IDLE_AFTER_5_S))
    clock.sleep(6)
    last = run.latest_offset(last)
    assert last["idle"] == ["a", "b"]
    again = coordinator(logs, Clock(), watermarks=IDLE_AFTER_5_S)
    assert again.latest_offset(last) == last


class TrimmedMeanwhile(Logs):
    """Loses records between its extents and the first peek."""

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
    start = {**INITIAL_OFFSET, "source": "memory", "positions": {"a": 0}}
    with pytest.raises(DataLossError, match="positions 0 to 1 of split 'a' are gone"):
        coordinator(logs).latest_offset(start)


def test_a_paused_split_that_retention_comes_near_is_named_with_the_time_left(caplog):
    logs, clock = Logs(a=range(1000), b=[0]), Clock()
    run, last = caught_up(coordinator(logs, clock, watermarks=DRIFT_10))
    assert (last["positions"]["a"], run.source_progress()["timeToDeletion"]) == (10, {})
    clock.sleep(50)
    logs.begins = {"a": 5}
    run.latest_offset(last)
    left = run.source_progress()["timeToDeletion"]["a"]
    assert 40_000 < left < 60_000
    assert "memory will lose unread records of a in about 0 minutes to retention" in caplog.text


def test_retention_comes_near_no_split_that_is_read_to_its_configured_end(caplog):
    logs, clock = Logs(a=range(1000), b=[0]), Clock()
    logs.ends = {"a": 10}
    run, last = caught_up(coordinator(logs, clock))
    assert last["positions"]["a"] == 10
    clock.sleep(50)
    logs.begins = {"a": 5}
    assert run.latest_offset(last) == last
    assert run.source_progress()["timeToDeletion"] == {}
    assert "retention" not in caplog.text


class Replaced(Logs):
    """Reports once that a split no longer holds the records that were read."""

    diverged, moved = None, ()

    def validate(self, positions):
        reported, self.diverged = self.diverged or {}, None
        return {s: Divergence("it was recreated", at) for s, at in reported.items() if s in positions}

    def take_moved_stops(self):
        moved, self.moved = self.moved, ()
        return moved


class TestDivergence:
    def test_a_split_that_holds_other_records_ends_the_query(self):
        logs = Replaced(a=[1, 2, 3])
        _, last = drain(coordinator(logs), INITIAL_OFFSET)
        logs.times, logs.diverged = {"a": [5, 6, 7, 8]}, {"a": 0}
        with pytest.raises(DataLossError, match="'a' was read up to position 3, but it was recreated; start with"):
            coordinator(logs).latest_offset(last)

    @pytest.mark.parametrize("times", [[50], [50, 51, 52], [50, 51, 52, 53]])
    def test_without_fail_on_data_loss_it_is_read_from_where_the_others_begin(self, times, caplog):
        logs = Replaced(a=[1, 2, 3], b=[1, 2])
        run, last = caught_up(coordinator(logs, fail_on_data_loss=False, watermarks=DRIFT_10))
        logs.times, logs.diverged = {"a": times, "b": [1, 2, 49]}, {"a": 0}
        end = run.latest_offset(last)
        assert end["starts"] == {"a": 0}
        assert sorted(read(run, last, end)) == [("a", p) for p in range(len(times))] + [("b", 2)]
        assert read(coordinator(logs), last, end) == read(run, last, end)
        assert read(run, end, end) == []
        assert run.source_progress()["divergedSplits"] == ["a"]
        assert "goes on from position 0 with a: it was recreated (failOnDataLoss is false)" in caplog.text
        assert drain(run, end)[0] == []

    def test_what_it_holds_behind_the_watermark_is_late_wherever_it_begins(self):
        logs = Replaced(a=[10, 20, 30], b=[100, 110])
        run, last = caught_up(coordinator(logs, fail_on_data_loss=False, late_splits="catch-up", watermarks=DRIFT_10))
        logs.times, logs.diverged = {"a": [10, 20, 5], "b": [100, 110]}, {"a": 2}
        end = run.latest_offset(last)
        assert (end["starts"], end["late"], end["positions"]) == ({"a": 2}, ["a"], {"a": 3, "b": 0})

    def test_it_may_begin_past_the_end_that_was_seen_a_moment_before(self):
        logs = Replaced(a=[1, 2, 3])
        run, last = caught_up(coordinator(logs, fail_on_data_loss=False))
        logs.times, logs.diverged = {"a": []}, {"a": 1}
        last = run.latest_offset(last)
        assert (last["starts"], last["positions"]) == ({"a": 1}, {"a": 1})
        logs.times = {"a": [5, 6]}
        assert drain(run, last)[0] == [("a", 1)]

    @pytest.mark.parametrize("restarts", [False, True])
    def test_its_idle_timer_begins_anew(self, restarts):
        logs, clock = Replaced(a=[1], b=[1]), Clock()
        run, last = caught_up(coordinator(logs, clock, fail_on_data_loss=False, watermarks=IDLE_AFTER_5_S))
        clock.sleep(6)
        last = run.latest_offset(last)
        assert last["idle"] == ["a", "b"]
        logs.times, logs.diverged = {"a": [], "b": [1]}, {"a": 0}
        if restarts:
            run = coordinator(logs, clock, fail_on_data_loss=False, watermarks=IDLE_AFTER_5_S)
        last = run.latest_offset(last)
        assert last["idle"] == ["b"]
        clock.sleep(6)
        assert run.latest_offset(last)["idle"] == ["a", "b"]

    def test_its_idle_timer_begins_anew_over_bounded_runs_too(self):
        logs, clock, last = Replaced(a=[1], b=[1]), Clock(), INITIAL_OFFSET
        for _ in range(2):
            run = coordinator(logs, clock, fail_on_data_loss=False, watermarks=IDLE_AFTER_5_S)
            run.bound_run()
            _, last = drain(run, last)
            logs.times, logs.diverged = {"a": [], "b": [1]}, {"a": 0}
            clock.sleep(6)
        assert last["idle"] == ["b"]

    def test_an_end_that_no_longer_holds_is_asked_for_again(self):
        logs = Replaced(a=range(10), b=[0])
        logs.ends = {"a": 8}
        run = coordinator(logs)
        first = run.latest_offset(INITIAL_OFFSET, Budget(rows=4))
        logs.ends, logs.moved = {"a": 6}, ["a"]
        stops = logs.stops

        def away(splits):
            logs.stops = stops
            raise UnavailableError("its server is away")

        logs.stops = away  # the enumerator says only once that the end has moved
        assert drain(run, first)[1]["positions"] == {"a": 6, "b": 1}

    def test_a_plan_that_fails_afterwards_loses_nothing(self):
        logs = Replaced(a=[1, 2, 3])
        run, last = caught_up(coordinator(logs, fail_on_data_loss=False))
        logs.times, logs.diverged = {"a": [5, 6, 7]}, {"a": 0}
        peek, failures = logs.peek, iter([PositionGoneError("gone"), None])

        def peek_at_second_try(positions, horizon):
            if error := next(failures, None):
                raise error
            return peek(positions, horizon)

        logs.peek = peek_at_second_try
        assert len(read(run, last, run.latest_offset(last))) == 3


class Clustered(Logs):
    """Splits on servers; some servers are away."""

    away = ()

    def available_extents(self, splits):
        return self.extents([s for s in splits if s not in self.away]), dict.fromkeys(self.away, "its server is away")

    def stops(self, splits):
        if {*splits} - ({*self.times} - {*self.away}):
            raise UnavailableError("its server is away")
        return super().stops(splits)

    def peek(self, positions, horizon):
        if set(self.away) & positions.keys():
            raise UnavailableError("its server is away")
        return super().peek(positions, horizon)


class TestAvailability:
    def test_others_are_read_up_to_the_bound_and_nothing_is_lost(self, caplog):
        logs = Clustered(a=range(0, 100, 2), b=range(0, 100, 5))
        run = coordinator(logs, watermarks=DRIFT_10)
        first = run.latest_offset(INITIAL_OFFSET)
        records = read(run, INITIAL_OFFSET, first)
        logs.away = ("b",)
        more, last = drain(run, first)
        assert {split for split, _ in more} <= {"a"}
        assert max(logs.times["a"][p] for _, p in more) < first["watermark"] + 1 + 10
        assert last["watermark"] == first["watermark"]
        assert run.source_progress()["unavailableSplits"] == ["b"]
        assert run.source_progress()["heldBy"] == "b"
        assert run.source_progress()["bySplit"]["b"][0] == "unread"
        assert "cannot look at b, and the others wait for them at the bound: its server is away" in caplog.text
        logs.away = ()
        remainder, _ = drain(run, last)
        assert sorted(records + more + remainder) == all_records(logs)
        assert "unavailableSplits" not in run.source_progress()

    def test_one_that_was_idle_holds_nobody(self):
        logs, clock = Clustered(a=[0], b=[0]), Clock()
        run, last = caught_up(coordinator(logs, clock, watermarks=DRIFT_10.with_idleness(timedelta(seconds=5))))
        clock.sleep(6)
        last = run.latest_offset(last)
        logs.away, logs.times["a"] = ("b",), [0, 1000]
        records, last = drain(run, last)
        assert records == [("a", 1)]
        assert last["idle"] == ["b"]

    def test_each_plan_asks_once_for_the_ends_of_splits_whose_extents_it_knows(self):
        logs, order = Logs(a=[0, 1], b=[0]), []
        extents, stops = logs.extents, logs.stops
        logs.extents = lambda splits: order.append("extents") or extents(splits)
        logs.stops = lambda splits: order.append(f"stops of {', '.join(splits)}") or stops(splits)
        logs.ends = {"b": 1}
        run, last = coordinator(logs, discovery_interval_s=0), INITIAL_OFFSET
        for ends in ["a, b", "a", "a"]:
            last = run.latest_offset(last)
            assert order == ["extents", f"stops of {ends}"]
            order.clear()
        coordinator(logs).everything()
        assert order == ["extents", "stops of a, b"]

    @pytest.mark.parametrize("discovery_interval_s", [0, 30])
    def test_only_of_splits_that_are_there_is_an_end_asked_that_is_to_come(self, discovery_interval_s):
        logs = Clustered(a=[0], b=[0], c=[0])
        settings = {"discovery_interval_s": discovery_interval_s, "fail_on_data_loss": False}
        run, last = caught_up(coordinator(logs, **settings))
        logs.away, logs.times["a"] = ("b",), [0, 1]
        del logs.times["c"]
        records, last = drain(run, last)
        logs.away, logs.ends, logs.times["a"] = (), {"a": 3}, [0, 1, 2, 3, 4]
        assert records + drain(run, last)[0] == [("a", 1), ("a", 2)]

    def test_the_end_of_one_that_holds_other_records_is_asked_for_once_it_is_there(self):
        class Moved(Replaced, Clustered):
            def stops(self, splits):
                if set(self.away) & set(splits):
                    raise UnavailableError("its server is away")
                return super().stops(splits)

        logs = Moved(a=[0, 1], b=[0])
        logs.ends = {"a": 2}
        run, last = caught_up(coordinator(logs, fail_on_data_loss=False, discovery_interval_s=0))
        logs.times, logs.ends = {"a": [5, 6, 7, 8, 9], "b": [0, 5]}, {"a": 4}
        logs.diverged, logs.away = {"a": 0}, ("a",)
        records, last = drain(run, last)
        assert records == [("b", 1)]
        logs.away = ()
        assert drain(run, last)[0] == [("a", p) for p in range(4)]

    def test_a_query_begins_and_a_bounded_run_goes_on_only_with_all(self):
        logs = Clustered(a=[0], b=[0])
        logs.available_extents = lambda splits: pytest.fail("it must not do without a split")
        run = coordinator(logs)
        run.bound_run()
        assert len(drain(run, INITIAL_OFFSET)[0]) == 2


def test_a_batch_is_not_put_off_once_a_split_was_forgotten():
    logs = Logs(a=[1, 2], b=[1])
    run, last = caught_up(coordinator(logs, fail_on_data_loss=False, discovery_interval_s=0))
    logs.forget = list
    del logs.times["b"]
    logs.times["a"] += [3]
    assert run.latest_offset(last, min_rows=100)["positions"] == {"a": 3}


def test_of_splits_that_come_and_go_for_ever_nothing_is_kept():
    logs, clock = Logs(), Clock()
    logs.forget = list
    settings = CoordinatorSettings(WatermarkStrategy(), discovery_interval_s=1)
    splits, before = Splits(logs, settings, RunLog("memory"), clock.clocks), Offset()
    for number in range(20):
        logs.times = {f"split-{number}": [number]}
        clock.sleep(2)
        progress = splits.find(before, NEVER_MS, bounded=False).progress
        assert progress.positions == {f"split-{number}": 0}
        before = Offset("memory", progress)
    assert splits.stops == {"split-19": None}
