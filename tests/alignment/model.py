"""A world to plan in: logs that know their whole future, what happens to them, and what plans read of them."""

from dataclasses import dataclass, replace

from tidegate.alignment.group import GroupBound
from tidegate.alignment.index import Peeking, TimeIndex
from tidegate.alignment.plan import Observed, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Head


@dataclass(frozen=True)
class Entry:
    """An entry of a log; seen: it is a record to align by, not a marker or the like."""

    position: int
    time_ms: int
    seen: bool = True


@dataclass
class Log:
    """One split: its entries for all its life.  Those before ``end`` can be read now."""

    entries: list[Entry]
    begin: int = 0
    end: int = 0
    settled: bool = True
    complete: bool = False

    @property
    def last(self):
        return self.entries[-1].position + 1 if self.entries else 0

    def append(self, count):
        """Make ``count`` more entries readable."""
        coming = [e for e in self.entries if e.position >= self.end]
        if coming:
            self.end = coming[min(count, len(coming)) - 1].position + 1

    def records(self, start=0, end=None):
        start = max(start, self.begin)
        return [e for e in self.entries if e.seen and e.position >= start and (end is None or e.position < end)]


def log(*times_ms, start=0, readable=True):
    """Make a log of records without holes."""
    made = Log([Entry(start + i, t) for i, t in enumerate(times_ms)], begin=start, end=start)
    if readable:
        made.end = max(made.last, start)
    return made


class PeekOnly(Peeking):
    """A source without an index."""

    def __init__(self, logs):
        self.logs = logs

    def peek(self, positions, horizon):
        records = {s: self.logs[s].records(p, self.logs[s].end) for s, p in positions.items()}
        return {s: Head(r[0].position, r[0].time_ms) if r else None for s, r in records.items()}

    def latest(self, ends, horizon):
        answers = {}
        for split, end in ends.items():
            times = [e.time_ms for e in self.logs[split].records(0, end)]
            answers[split] = max(times, default=None)
        return answers


class KafkaLike(PeekOnly):
    """A source whose index finds the first entry of the whole log, transaction markers included."""

    def lookup(self, event_time_ms, splits):
        answers = {}
        for split in splits:
            log = self.logs[split]
            entries = [e for e in log.entries if log.begin <= e.position < log.end and e.time_ms >= event_time_ms]
            answers[split] = Head(entries[0].position, entries[0].time_ms) if entries else None
        return answers


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
