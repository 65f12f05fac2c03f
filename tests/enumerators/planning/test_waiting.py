"""Extents are not requested while the source reports no news, whatever else may change a plan."""

import pytest

from tests.support.logs import WALL, Clock, Logs, caught_up, coordinator, drain
from tidegate.alignment.generators.bounded import AscendingTimestampsWatermarks
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

POLLS = 20


class PassingClocks(Clocks):
    are_real = True


class PassingClock(Clock):
    """Clocks that a test moves, and that a run takes for real ones."""

    @property
    def clocks(self):
        return PassingClocks(self, lambda: WALL + self.now, self.sleep)


class Told(Logs):
    """Logs that know whether something was added."""

    def __init__(self, clock, **times):
        super().__init__(**times)
        self.clock, self.seen, self.plans = clock, 0, 0

    def commit(self, positions):  # called before every plan
        self.plans += 1

    def extents(self, splits):
        self.seen = self.size
        return super().extents(splits)

    def wait(self, seconds):
        self.clock.sleep(seconds)
        return self.size != self.seen

    @property
    def size(self):
        return sum(map(len, self.times.values()))


def looks(logs, run, start, polls=POLLS, **asked):
    """Return how often extents were requested in this number of polls without news."""
    before = logs.asked["extents"]
    for _ in range(polls):
        assert run.latest_offset(start, **asked) == start
    return logs.asked["extents"] - before


@pytest.fixture
def clock():
    return PassingClock()


@pytest.mark.parametrize(
    "settings",
    [{}, {"watermarks": WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)}],
    ids=["plain", "generator"],
)
def test_extents_that_stay_the_same_are_asked_for_every_few_seconds_and_others_at_once(clock, settings):
    logs = Told(clock, a=[1, 2, 3], b=[])
    run = coordinator(logs, clock, **settings)
    read, last = drain(run, INITIAL_OFFSET)
    assert len(read) == 3
    looks(logs, run, last, polls=1)
    assert looks(logs, run, last) == 0
    assert looks(logs, run, last, polls=60) == 1  # six seconds
    logs.times["b"].append(5)
    assert run.latest_offset(last)["positions"] == {"a": 3, "b": 1}


def test_a_batch_that_is_put_off_is_planned_again_when_rows_come_or_its_delay_is_over(clock):
    logs = Told(clock, a=[1, 2, 3])
    run, last = caught_up(coordinator(logs, clock, max_trigger_delay_s=4))
    logs.times["a"].append(4)
    looks(logs, run, last, polls=1, min_rows=3)
    plans = logs.plans
    looks(logs, run, last, polls=15, min_rows=3)
    assert logs.plans == plans
    logs.times["a"].append(5)
    looks(logs, run, last, polls=15, min_rows=3)
    assert logs.plans == plans + 1
    polls = 0
    while run.latest_offset(last, min_rows=3) == last:
        polls += 1
    assert clock.now == pytest.approx(4, abs=0.2)
    assert logs.plans == plans + 2
    assert 0 < polls < 40
