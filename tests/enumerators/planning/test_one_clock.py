"""One clock for a batch: its plan, its readers, and whoever reads it again, agree on what is in the future.

An extent belongs to the moment at which it was asked for, not to that of its answer.
"""

from datetime import timedelta

import pytest

from tests.enumerators.planning.test_bounded_runs import SparkWatermark
from tests.support.logs import WALL, Clock, Logs, StillClock, caught_up, coordinator
from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import Head
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.readers.event_time.policy import EventTimePolicy

NOW_MS = int(WALL * 1000)
SECOND_MS = 1_000
IGNORE = EventTimePolicy(max_future_skew_ms=0)
ALIGNED = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(seconds=30))


class Judged(Logs):
    """Leaves out rows in the future, as connectors do: by the policy.  Has no index."""

    lookup = None
    looked_at = 0

    def peek(self, positions, horizon):
        return {s: next(self._heads(s, position, horizon), None) for s, position in positions.items()}

    def latest(self, ends, horizon):
        return {}

    def _heads(self, split, position, horizon):
        for at, time_ms in enumerate(self.times[split][position:], position):
            self.looked_at += 1
            if IGNORE.time_of_row(time_ms, None, horizon, split) is not None:
                yield Head(at, time_ms)


class Sink:
    """Reads batches as executors do, and judges them as Spark's watermark does."""

    def __init__(self, logs, delay_ms):
        self.logs, self.delay_ms, self.spark = logs, delay_ms, SparkWatermark()

    def read(self, run, start, end):
        batch = {}
        for task in run.tasks(start, end):
            for r in task.ranges:
                for time_ms in self.logs.times[r.split_id][r.start : r.end]:
                    if IGNORE.time_of_row(time_ms, None, task.horizon, r.split_id) is not None:
                        batch.setdefault(r.split_id, []).append(time_ms)
        for split, times in batch.items():
            assert not self.spark.dropped(times, self.delay_ms), f"Spark drops rows of {split}"
        return batch


@pytest.fixture
def world():
    """A split with a back-fill of two minutes, and one with rows that are 20 to 100 s ahead of the clock."""
    ahead = [NOW_MS + 20 * SECOND_MS + 40 * number for number in range(2_000)]
    logs = Judged(stray=ahead, even=range(NOW_MS - 120 * SECOND_MS, NOW_MS, 60))
    return logs, Clock(), Sink(logs, delay_ms=1)


def begin(logs, clock):
    return coordinator(logs, clock, watermarks=ALIGNED, event_times=IGNORE)


def test_rows_of_a_remembered_stretch_count_once_their_time_has_come(world):
    logs, clock, sink = world
    run, start, delivered = begin(logs, clock), INITIAL_OFFSET, 0
    while start.get("positions") != {"even": 2_000, "stray": 2_000}:
        end = run.latest_offset(start, Budget(rows=200))
        batch = sink.read(run, start, end)
        sink.spark.deliver(batch)
        delivered += sum(map(len, batch.values()))
        start = end
        clock.sleep(10)
    assert 2_500 < delivered < 4_000, "a row counts if the clock has reached it before its batch"


def test_a_stretch_whose_time_has_not_come_is_not_searched_again(world):
    logs, clock, _ = world
    logs.times["stray"] = [NOW_MS + 10**9] * 2_000
    run, start = begin(logs, clock), INITIAL_OFFSET
    start = run.latest_offset(start, Budget(rows=10))
    once = logs.looked_at
    for _ in range(20):
        clock.sleep(1)
        start = run.latest_offset(start, Budget(rows=10))
    assert logs.looked_at - once < 2_000


def test_a_plan_that_reads_nothing_keeps_its_offset_whatever_the_clock_says():
    logs, clock = Judged(a=[NOW_MS, NOW_MS + 10 * SECOND_MS]), StillClock()
    run = begin(logs, clock)
    start = INITIAL_OFFSET
    while (end := run.latest_offset(start)) != start:
        start = end
    assert start["horizon"] == NOW_MS + 1
    clock.sleep(30)
    assert run.latest_offset(start) == start
    clock.sleep(60)  # the split is idle, which is another offset without a range
    idle = run.latest_offset(start)
    assert (idle["idle"], idle["horizon"]) == (["a"], NOW_MS + 1)
    assert run.latest_offset(idle) == idle


def test_a_batch_that_only_passes_over_deleted_records_has_the_same_tasks_when_it_is_repeated():
    logs, clock = Logs(a=[]), Clock()
    run = coordinator(logs, clock, watermarks=ALIGNED, fail_on_data_loss=False)
    start = run.latest_offset(INITIAL_OFFSET)
    logs.times["a"], logs.begins["a"] = [1, 2], 2
    end = run.latest_offset(start)
    tasks = run.tasks(start, end)
    clock.sleep(60)
    assert (run.tasks(start, end), end["positions"]) == (tasks, {"a": 2})


def test_all_tasks_of_a_batch_query_have_one_clock():
    tasks, _ = coordinator(Logs(a=[1], b=[2]), Clock(), event_times=IGNORE, min_tasks=2).everything()
    assert [task.horizon.at_ms for task in tasks] == [NOW_MS + 1] * 2


class Stalling(Logs):
    """Logs that answer, and then let time pass, as when one broker of many does not come; producers go on.

    stalls: the methods that take so long.
    """

    def __init__(self, clock, **times):
        super().__init__(**times)
        self.clock, self.stalls, self.stall_s = clock, set(), 90

    def _stall(self, method):
        if method in self.stalls:
            for split, times in self.times.items():
                self.times[split] = [*times, *range(times[-1] + 1000, times[-1] + self.stall_s * 1000, 1000)]
            self.clock.sleep(self.stall_s)

    def extents(self, splits):
        answer = super().extents(splits)
        self._stall("extents")
        return answer

    def validate(self, positions):
        self._stall("validate")
        return super().validate(positions)


@pytest.mark.parametrize("method", ["extents", "validate"])
def test_no_partition_is_idle_because_a_look_at_others_took_long(method):
    clock = Clock()
    logs = Stalling(clock, a=[0], b=[0])
    run, last = caught_up(coordinator(logs, clock, watermarks=ALIGNED))
    clock.sleep(1)
    logs.stalls = {method}
    after = run.latest_offset(last)
    assert "idle" not in after


@pytest.mark.parametrize("method", ["extents", "validate"])
def test_the_same_where_the_first_look_of_a_bounded_run_took_long(method):
    clock = Clock()
    logs, last = Stalling(clock, a=[0], b=[0]), INITIAL_OFFSET
    for logs.stalls in (set(), {method}):
        run = coordinator(logs, clock, watermarks=ALIGNED)
        run.bound_run()
        while (after := run.latest_offset(last)) != last:
            last = after
            assert "idle" not in last
        clock.sleep(1)
