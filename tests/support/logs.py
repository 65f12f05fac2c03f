"""Coordinators without Spark: sources in memory, on clocks that tests move, and real ones."""

from contextlib import closing
from datetime import timedelta

import pyarrow as pa

from tidegate.alignment.plan import Limits
from tidegate.alignment.splits import Extent, Head
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.enumerators.planning.assigner import TaskSizes
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.generated import ReaderFeed, no_events
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.errors import PositionGoneError
from tidegate.readers.contract import TimedBatch

WALL = 1_700_000_000.0  # what the wall clock of a test begins with


class Clock:
    """Seconds that pass when someone sleeps, and a little whenever someone looks: no two looks see the same time."""

    begin_s = WALL
    adjusted_s = 0.0
    tick_s = 0.0001

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        self.now += self.tick_s
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def wall(self):
        self.now += self.tick_s
        return self.begin_s + self.now + self.adjusted_s

    @property
    def clocks(self):
        return Clocks(self, self.wall, self.sleep)


class StillClock(Clock):
    """Seconds that pass only when someone sleeps, for what happens at an exact instant."""

    tick_s = 0.0


def coordinator_over(source, **settings):
    """Return a coordinator of a new run of a source."""
    known = CoordinatorSettings(source.watermarks, **settings)
    return SourceCoordinator(source.connector, source.enumerator, known, cores=2)


def coordinating(source, **settings):
    """Return such a coordinator, which closes at the end of the block."""
    return closing(coordinator_over(source, **settings))


DRIFT_10 = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(milliseconds=10))


class Logs(SplitEnumerator):
    """Splits as lists of event times; position i is the i-th record.

    begins: how many records at a split's beginning are gone.  unsettled: splits with an open end.
    asked: how often each method was called.
    """

    def __init__(self, **times):
        self.times = {split: list(each) for split, each in times.items()}
        self.begins, self.ends, self.unsettled = {}, {}, set()
        self.starting = "earliest"
        self.asked = {"discover": 0, "starts": 0, "extents": 0, "close": 0}
        self.state = None

    def discover(self):
        self.asked["discover"] += 1
        return list(self.times)

    def starts(self, splits, *, first):
        self.asked["starts"] += 1
        latest = first and self.starting == "latest"
        return {s: len(self.times[s]) if latest else self.begins.get(s, 0) for s in splits}

    def stops(self, splits):
        return {s: self.ends.get(s) for s in splits}

    def extents(self, splits):
        self.asked["extents"] += 1
        return {
            s: Extent(self.begins.get(s, 0), len(self.times[s]), settled=s not in self.unsettled)
            for s in splits
            if s in self.times
        }

    def peek(self, positions, horizon):
        if gone := [s for s, p in positions.items() if p < self.begins.get(s, 0)]:
            raise PositionGoneError(f"position {positions[gone[0]]} of {gone[0]} does not exist")
        return {s: Head(p, self.times[s][p]) if p < len(self.times[s]) else None for s, p in positions.items()}

    def latest(self, ends, horizon):
        return {s: max(self.times[s][self.begins.get(s, 0) : end], default=None) for s, end in ends.items()}

    def lookup(self, event_time_ms, splits):
        return {s: next((Head(p, t) for p, t in enumerate(self.times[s]) if t >= event_time_ms), None) for s in splits}

    def snapshot(self):
        return self.state

    def close(self):
        self.asked["close"] += 1


def coordinator(logs, clock=None, cores=2, restored=None, group=None, pace=None, *, take_events=None, **settings):
    """Return a coordinator of a new run; ``restored`` collects the states that it is opened with."""

    def open_enumerator(state):
        if restored is not None:
            restored.append(state)
        return logs

    def read_timed(task, state):
        for number, wanted in enumerate(task.ranges):
            times = pa.array(logs.times[wanted.split_id][wanted.start : wanted.end], pa.int64())
            yield TimedBatch(number, pa.record_batch([times], ["at"]), times)

    clock = clock or Clock()
    limits = {name: settings.pop(name) for name in [*settings] if name in Limits.__slots__}
    sizes = {name: settings.pop(name) for name in [*settings] if name in TaskSizes._fields}
    of_user = {"watermarks": WatermarkStrategy(), **settings}
    known = {"limits": Limits(**limits), "tasks": TaskSizes(**sizes), **of_user}
    return SourceCoordinator(
        "memory",
        open_enumerator,
        CoordinatorSettings(**known),
        cores,
        group=group,
        pace=pace,
        clocks=clock.clocks,
        feed=ReaderFeed(read_timed, take_events or no_events),
    )


def read(run, start, end):
    """Return what the batch between two offsets reads, as (split, position)."""
    return [(r.split_id, p) for task in run.tasks(start, end) for r in task.ranges for p in range(r.start, r.end)]


def all_records(logs):
    return sorted((split, p) for split, times in logs.times.items() for p in range(len(times)))


def drain(run, start):
    """Take batches until the offset repeats; return their records and the last offset."""
    found = []
    while (end := run.latest_offset(start)) != start:
        found += read(run, start, end)
        start = end
    return found, start


def caught_up(run):
    """Take all batches of a new query; return its run and the last offset."""
    return run, drain(run, INITIAL_OFFSET)[1]
