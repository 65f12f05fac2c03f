"""Looks at a source that take long: an extent is that of the time when it was asked for, and not that of its answer."""

from datetime import timedelta

import pytest

from tests.support.logs import Clock, Logs, caught_up, coordinator
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

STRATEGY = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(seconds=10))  # idle after a minute


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
    run, last = caught_up(coordinator(logs, clock, watermarks=STRATEGY))
    clock.sleep(1)
    logs.stalls = {method}
    after = run.latest_offset(last)
    assert "idle" not in after


@pytest.mark.parametrize("method", ["extents", "validate"])
def test_the_same_where_the_first_look_of_a_bounded_run_took_long(method):
    clock = Clock()
    logs, last = Stalling(clock, a=[0], b=[0]), INITIAL_OFFSET
    for logs.stalls in (set(), {method}):
        run = coordinator(logs, clock, watermarks=STRATEGY)
        run.bound_run()
        while (after := run.latest_offset(last)) != last:
            last = after
            assert "idle" not in last
        clock.sleep(1)
