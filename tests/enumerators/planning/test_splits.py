"""The splits of a run, as plans find them."""

from tests.support.clocks import Clock
from tests.support.logs import Logs
from tidegate.alignment.horizon import NEVER_MS
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.enumerators.planning.splits import Splits


def test_of_splits_that_come_and_go_for_ever_nothing_is_kept():
    logs, clock = Logs(), Clock()
    logs.forget = list
    settings = CoordinatorSettings(WatermarkStrategy(), discovery_interval_s=1)
    splits, before = Splits(logs, settings, TimeIndex(logs), RunLog("memory"), clock.clocks), Offset()
    for number in range(20):
        logs.times = {f"split-{number}": [number]}
        clock.sleep(2)
        current = splits.find(before, NEVER_MS, bounded=False)
        assert (current.progress.positions, current.has_forgotten) == ({f"split-{number}": 0}, number > 0)
        before = Offset("memory", current.progress)
    assert splits.stops == {"split-19": None}
