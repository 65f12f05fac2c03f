"""Runs with Trigger.AvailableNow are pieces of one long stream, judged by Spark's own watermark.

Spark drops a row whose event time is at or before its watermark, the greatest event time of the batches before, minus
a delay.  Where a query may hold several stateful operators (``spark.sql.streaming.statefulOperator.allowMultiple``, the
default), the last of these batches does not count yet.  Then Spark drops no more rows than are dropped here.
"""

from datetime import timedelta

import pytest

from tests.support.logs import DRIFT_10, Clock, Logs, all_records, coordinator, drain, read
from tidegate.alignment.budget import Budget
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET


class SparkWatermark:
    """Spark's watermark over the batches of one query, without its delay."""

    def __init__(self):
        self._greatest_ms = float("-inf")

    def dropped(self, rows, delay_ms):
        """Return the event times of the next batch that Spark would drop."""
        return [at_ms for at_ms in rows if at_ms <= self._greatest_ms - delay_ms]

    def deliver(self, batch):
        """Take a batch: its event times by split."""
        self._greatest_ms = max([self._greatest_ms, *(at_ms for rows in batch.values() for at_ms in rows)])


MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
HOUR_MS, DAY_MS = HOUR_S * 1000, DAY_S * 1000
HOURLY = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1))


class Producers(Clock):
    """A clock with which producers write: each a record a minute, of the time that it trails by.

    ends: when a producer stops, in seconds.
    quiet_s: how much time has passed in which nobody writes, also by looks at the clock.
    slowness: how much slower than the clock event times move on.
    """

    quiet_s = 0.0
    slowness = 1

    def __init__(self, ends=None, **trailing_s):
        super().__init__()
        self.logs = Logs(**dict.fromkeys(trailing_s, ()))
        self.trailing_s, self.ends = trailing_s, ends or {}

    def sleep(self, seconds):
        before, now = self.now, self.now + seconds
        for split, trailing_s in self.trailing_s.items():
            end = min(now, self.ends.get(split, now))
            minutes = range(int(before // MINUTE_S) + 1, int(end // MINUTE_S) + 1)
            self.logs.times[split] += [
                DAY_MS + minute * MINUTE_S * 1000 // self.slowness - trailing_s * 1000 for minute in minutes
            ]
        super().sleep(seconds)

    def __call__(self):
        self.quiet_s += self.tick_s
        return self.now + self.quiet_s

    def wall(self):
        return self.begin_s + self() + self.adjusted_s


class Stream:
    """One query that is run again and again, and what Spark drops of it if its delay is the drift."""

    rows = 500
    jump_s = 0.0
    """By how much the wall clock jumps after the first batch of the next run."""

    def __init__(self, clock, strategy=HOURLY, lasting_s=0):
        self.clock, self.strategy, self.lasting_s = clock, strategy, lasting_s
        self.spark, self.offset, self.delivered, self.dropped = SparkWatermark(), INITIAL_OFFSET, [], []

    def run(self, **settings):
        """Run with Trigger.AvailableNow to the end."""
        run = coordinator(self.clock.logs, self.clock, watermarks=self.strategy, **settings)
        run.bound_run()
        while (end := run.latest_offset(self.offset, Budget(rows=self.rows))) != self.offset:
            records = read(run, self.offset, end)
            batch = {}
            for split, position in records:
                batch.setdefault(split, []).append(self.clock.logs.times[split][position])
            for split, times in batch.items():
                self.dropped += [(split, at_ms) for at_ms in self.spark.dropped(times, HOUR_MS + 1)]
            self.spark.deliver(batch)
            self.delivered += records
            self.offset = end
            self.clock.quiet_s += self.lasting_s
            self.clock.adjusted_s, self.jump_s = self.clock.adjusted_s + self.jump_s, 0.0
        run.close()


def test_spark_drops_what_is_at_or_before_the_greatest_time_of_the_batches_before_minus_the_delay():
    spark = SparkWatermark()
    assert spark.dropped([-(10**9)], delay_ms=1) == []
    for batch in ({"a": [90], "b": [100]}, {"a": [95]}, {}):
        spark.deliver(batch)
    assert spark.dropped([89, 90, 91], delay_ms=10) == [89, 90]


@pytest.mark.parametrize("runs_s", [0, 5 * MINUTE_S])
@pytest.mark.parametrize("idle_timeout", [timedelta(minutes=1), timedelta(seconds=1), timedelta(hours=3)])
def test_what_producers_write_between_the_runs_is_not_late_whatever_the_idle_timeout(runs_s, idle_timeout):
    clock = Producers(ahead=0, behind=3 * HOUR_S)
    stream = Stream(clock, HOURLY.with_idleness(idle_timeout), lasting_s=runs_s)
    for _ in range(24):
        clock.sleep(HOUR_S)
        begun = clock.now
        stream.run()
        assert clock.now == begun, "a run waits for a partition that gets nothing while it runs"
    assert stream.dropped == []
    assert len([split for split, _ in stream.delivered if split == "behind"]) == 24 * 60


@pytest.mark.parametrize("slowness", [1, 24, 1000])
def test_a_run_that_is_repeated_makes_no_partition_idle_that_gets_its_records_from_hour_to_hour(slowness):
    clock = Producers(ahead=0, behind=3 * HOUR_S)
    clock.slowness = slowness
    stream, repeated = Stream(clock), {1: 1, 5: 1, 6: 1, 9: 2, 14: 1}
    for hour in range(20):
        clock.sleep(HOUR_S)
        stream.run()
        for _ in range(repeated.get(hour, 0)):
            clock.quiet_s += 5 * MINUTE_S
            stream.run()
    assert stream.dropped == []
    assert len([split for split, _ in stream.delivered if split == "behind"]) == 20 * 60


def test_a_run_soon_after_the_first_one_does_not_make_a_repeated_run_take_its_pause_for_the_usual_one():
    clock = Producers(ahead=0, behind=3 * HOUR_S)
    stream = Stream(clock)
    for pause_s in (HOUR_S, 5 * MINUTE_S, HOUR_S):
        clock.sleep(pause_s)
        stream.run()
    clock.quiet_s += 5 * MINUTE_S
    for _ in range(4):
        stream.run()
        clock.sleep(HOUR_S)
    assert stream.dropped == []


def test_a_partition_with_an_open_transaction_holds_the_others_in_every_run_and_its_rows_are_not_late():
    clock = Producers(ahead=0, behind=0, ends={"behind": HOUR_S})
    stream = Stream(clock)
    clock.logs.unsettled = {"behind"}
    clock.sleep(6 * HOUR_S)
    for _ in range(4):
        stream.run()
        assert "idle" not in stream.offset
        clock.quiet_s += HOUR_S
    clock.logs.unsettled = set()
    clock.logs.times["behind"] += range(DAY_MS + HOUR_MS, DAY_MS + 6 * HOUR_MS, MINUTE_S * 1000)
    stream.run()
    assert stream.dropped == []
    assert len(stream.delivered) >= 11 * 60


def test_a_partition_that_ended_holds_the_others_in_the_run_that_reads_it_and_is_idle_in_the_next():
    clock = Producers(ahead=0, ended=0, ends={"ended": HOUR_S})
    stream = Stream(clock)
    clock.sleep(6 * HOUR_S)
    clock.tick_s, left = 0.0, []  # the runs are exactly as far apart as the idle timeout
    begun = clock()
    for idle in (None, ["ended"]):
        stream.run()
        left.append(len(all_records(clock.logs)) - len(stream.delivered))
        assert stream.offset.get("idle") == idle
        clock.quiet_s += MINUTE_S
    assert clock() - begun == 2 * MINUTE_S, "a run waits for the idle timeout"
    assert left == [4 * 60 + 1, 0]  # nothing is read at the bound


@pytest.mark.parametrize("timeout_s", [60, 0.3])  # no binary fraction is 0.3
def test_a_partition_that_ended_stays_idle_in_all_runs_that_come_after_though_each_takes_time(timeout_s):
    clock = Producers(ahead=0, ended=0, ends={"ended": HOUR_S})
    stream, left = Stream(clock, HOURLY.with_idleness(timedelta(seconds=timeout_s))), []
    for _ in range(6):
        clock.sleep(HOUR_S)
        stream.run()
        left.append(len(all_records(clock.logs)) - len(stream.delivered))
    assert left[2:] == [0] * 4


@pytest.mark.parametrize("slowness", [24, 1000])
def test_after_a_topic_that_is_slower_than_the_clock_has_ended_the_next_run_is_free(slowness):
    clock = Producers(ahead=0, behind=3 * HOUR_S)
    clock.slowness = slowness
    stream = Stream(clock)
    for _ in range(4):
        clock.sleep(HOUR_S)
        stream.run()
    clock.quiet_s += HOUR_S
    stream.run()
    assert stream.offset["idle"] == ["behind"]


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("jump_s", [2 * HOUR_S, -2 * HOUR_S, DAY_S])
def test_a_driver_whose_clock_is_wrong_for_once_makes_no_partition_idle_too_early(jump_s, within):
    """It jumps before a run or within one, and is right again in the next."""
    clock = Producers(ahead=0)
    behind = clock.logs.times["behind"] = [DAY_MS]
    stream = Stream(clock, HOURLY.with_idleness(timedelta(minutes=150)))
    stream.rows, wrong_at = (20, 13) if within else (500, 14)  # batches follow one with a wrong clock
    for hour in range(1, 25):
        clock.sleep(HOUR_S)
        if hour % 3 == 0:  # this producer delivers every three hours
            behind += [DAY_MS + minute * MINUTE_S * 1000 for minute in range(60 * hour - 179, 60 * hour + 1)]
        jumped_s = jump_s if hour == wrong_at else 0.0
        clock.adjusted_s, stream.jump_s = (0.0, jumped_s) if within else (jumped_s, 0.0)
        stream.run()
    assert stream.dropped == []
    assert sorted(stream.delivered) == all_records(clock.logs)


def test_a_clock_that_was_ahead_frees_the_others_later_and_not_never():
    clock = Producers(ahead=0, ended=0, ends={"ended": HOUR_S})
    stream = Stream(clock, HOURLY.with_idleness(timedelta(minutes=150)))
    idle_at = []
    for hour in range(1, 9):
        clock.sleep(HOUR_S)
        clock.adjusted_s = 2 * HOUR_S if hour == 2 else 0.0
        stream.run()
        idle_at += [hour] if "idle" in stream.offset else []
    assert idle_at == [5, 6, 7, 8]
    assert sorted(stream.delivered) == all_records(clock.logs)


def test_a_partition_that_became_quiet_late_in_a_long_run_is_idle_after_the_timeout_nevertheless():
    clock = Producers(ahead=0, ended=0, ends={"ended": HOUR_S})
    stream = Stream(clock, lasting_s=3 * HOUR_S)
    clock.sleep(2 * HOUR_S)
    stream.run()
    for _ in range(2):  # some records come, so that little time has certainly passed since the long run began
        clock.sleep(2 * MINUTE_S)
        stream.run()
    assert stream.offset["idle"] == ["ended"]


def test_a_run_that_lasts_for_hours_makes_no_split_idle_which_only_waits_in_it():
    logs, clock = Logs(a=range(0, 100, 5), b=[0]), Clock()
    run, offset = coordinator(logs, clock, watermarks=DRIFT_10), INITIAL_OFFSET
    run.bound_run()
    for _ in range(4):
        offset = run.latest_offset(offset, Budget(rows=1))
        clock.sleep(HOUR_S)
    assert (offset["positions"], offset.get("idle")) == ({"a": 2, "b": 1}, None)


def test_after_a_live_run_bounded_runs_without_news_still_make_splits_idle():
    clock = Producers(ahead=0, ended=0, ends={"ended": HOUR_S})
    clock.sleep(4 * HOUR_S)
    clock.trailing_s = {}
    stream = Stream(clock, WatermarkStrategy())
    _, stream.offset = drain(coordinator(clock.logs, clock), INITIAL_OFFSET)
    assert stream.offset["watermark"] == DAY_MS + HOUR_MS - 1
    for _ in range(2):
        stream.run()
        clock.sleep(HOUR_S)
    assert stream.offset["watermark"] == DAY_MS + 4 * HOUR_MS - 1


@pytest.mark.parametrize(("begin", "left_ms"), [(2, 30), (3, 31)])
def test_a_split_whose_target_was_passed_still_holds_the_watermark_and_the_bound(begin, left_ms):
    """Rule 7: records are deleted while a bounded run goes on."""
    logs = Logs(a=range(0, 100, 5), b=[0, 20])
    run = coordinator(logs, Clock(), watermarks=DRIFT_10, fail_on_data_loss=False)
    run.bound_run()
    first = run.latest_offset(INITIAL_OFFSET)
    logs.times["b"] += [30, 31]
    logs.begins["b"] = begin
    records, last = drain(run, first)
    assert last["watermark"] == left_ms - 1
    assert max(p * 5 for s, p in records if s == "a") < left_ms + 10


def test_a_late_split_that_reaches_its_target_is_still_late_by_the_record_behind_it():
    logs = Logs(a=[100])
    _, last = drain(coordinator(logs), INITIAL_OFFSET)
    logs.times["b"] = [1, 2, 200]
    run = coordinator(logs)
    run.bound_run()
    first = run.latest_offset(last, Budget(rows=1))
    assert (first["positions"]["b"], first["late"]) == (1, ["b"])
    logs.times["b"] += [3]
    end = run.latest_offset(first, Budget(rows=9))
    assert (end["positions"]["b"], end.get("late")) == (3, ["b"])
