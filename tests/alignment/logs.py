"""Logs to plan with, which know their whole future, and the sources of Kafka's and of other kinds that read them."""

from dataclasses import dataclass

from tidegate.alignment.splits import Head


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


class PeekOnly:
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
