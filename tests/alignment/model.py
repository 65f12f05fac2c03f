"""A world to plan in: logs, what happens to them, and what plans read of them."""

from dataclasses import replace

from tests.alignment.logs import KafkaLike
from tidegate.alignment.bound import GroupBound
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Observed, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent


class World:
    """Runs plans against logs.

    delivered: what was read of each split.
    quiet: splits that have had nothing to read for as long as the idle timeout.
    away: splits that cannot be reached.
    """

    def __init__(self, logs, limits, *, source=KafkaLike, starts=None):
        self.logs = dict(logs)
        self.limits = limits
        self.source = source(self.logs)
        self.index = TimeIndex(self.source)
        self.progress = Progress({s: (starts or {}).get(s, log.begin) for s, log in self.logs.items()})
        self.delivered = {s: [] for s in self.logs}
        self.quiet = set()
        self.away = set()
        self.group_low_ms = None
        self.added = set()
        self.plans = []

    # What may happen between two plans.

    def discover(self, split, log):
        self.logs[split] = log
        self.source.logs = self.logs
        self.delivered[split] = []
        self.added.add(split)
        self.progress = replace(self.progress, positions={**self.progress.positions, split: log.begin})

    def trim(self, split, begin):
        log = self.logs[split]
        log.begin = max(log.begin, min(begin, log.end))

    # Plans.

    def plan(self):
        extents = {s: self._extent(s) for s in self.logs}
        planned = self._plan(extents, self.index)
        assert self._plan(extents, TimeIndex(self.source)) == planned, "a restart plans something else"
        for split, r in planned.ranges.items():
            self.delivered[split] += self.logs[split].records(r.start, r.end)
        self.progress = planned.progress
        self.added = set()
        self.plans.append(planned)
        return planned

    def _extent(self, split):
        log, at = self.logs[split], self.progress.positions[split]
        if split in self.away:
            return Extent(at, at, settled=split in self.progress.idle, available=False)
        return Extent(log.begin, log.end, log.settled, log.complete)

    def _plan(self, extents, index):
        observed = Observed(self.progress, extents, frozenset(self.quiet), frozenset(self.added))
        low_ms, drift_ms = self.group_low_ms, self.limits.max_drift_ms
        group_bound = None
        if low_ms is not None and drift_ms is not None and self.limits.aligned:
            group_bound = GroupBound(low_ms, low_ms + drift_ms, "another")
        return plan(observed, self.limits, index, lambda _: group_bound)

    def drain(self):
        """Plan until nothing changes."""
        most = 10 + 3 * sum(max(0, log.last - log.begin) for log in self.logs.values())
        for _ in range(most):
            before = self.progress
            if self.plan().progress is before:
                return
        raise AssertionError(f"no end after {most} plans: {self.progress}")

    def read(self, split):
        return [e.time_ms for e in self.delivered[split]]

    def unread(self, split):
        """Return the unread records that may be read now."""
        return self.logs[split].records(self.progress.positions[split], self._extent(split).end)


def states(world):
    return {s: said.state for s, said in world.plans[-1].splits.items()}
