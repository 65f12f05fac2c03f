"""The splits of a run, as plans find them."""

from tests.support.clocks import Clock
from tests.support.logs import Logs
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.splits import Splits


def splits_of(logs, clock=None, **settings):
    known = {"discovery_interval_s": 1, "idle_timeout_s": 5, "fail_on_data_loss": True, **settings}
    return Splits(logs, RunLog("memory"), (clock or Clock()).clocks, **known)


def test_of_splits_that_come_and_go_for_ever_nothing_is_kept():
    logs, clock = Logs(), Clock()
    logs.forget = list
    splits, before = splits_of(logs, clock), Offset()
    for number in range(20):
        logs.times = {f"split-{number}": [number]}
        clock.sleep(2)
        current = splits.find(before, bounded=False)
        assert (current.progress.positions, current.has_forgotten) == ({f"split-{number}": 0}, number > 0)
        before = Offset("memory", current.progress)
    assert splits.stops == {"split-19": None}
