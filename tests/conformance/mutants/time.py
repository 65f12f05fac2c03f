import bisect

from tests.conformance.memory.reference import MemoryEnumerator
from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.references import EPOCH, MILLISECOND, TimedReader
from tidegate.alignment.horizon import Horizon
from tidegate.readers.contract import TimedBatch

SECOND_MS = 1_000


class LatestIsNoneBehindTheFuture(MemoryEnumerator):
    """Takes the row with the greatest time, and checks only then whether the row counts."""

    def latest(self, ends, horizon):
        times = super().latest(ends, horizon)
        for split, end in ends.items():
            records = self._client.ask("records", split, 0, end)
            greatest = max(records, key=lambda record: record.row.event_time_ms, default=None)
            if greatest is not None and self._source.usable_ms(split, greatest, horizon) is None:
                times[split] = None
        return times


class SearchesAsIfSorted(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        firsts = {}
        for split in splits:
            heads = list(self._heads(split, 0, Horizon()))
            at = bisect.bisect_left(heads, event_time_ms, key=lambda head: head.event_time_ms)
            firsts[split] = heads[at] if at < len(heads) else None
        return firsts


def enumerating(sin, killer, words, enumerator):
    return Mutant(sin, killer, (words,), sinful(enumerator=enumerator))


class ReadsTimedBackwards(TimedReader):
    def read_timed(self, task):
        for number, batch, times, _ in super().read_timed(task):
            yield TimedBatch(number, batch[::-1], times[::-1])


class ShowsTimesThatDoNotCount(TimedReader):
    def time_of(self, row, horizon):
        return (row["at"] - EPOCH) // MILLISECOND


class TakesAllRangesForTheFirst(TimedReader):
    def read_timed(self, task):
        for timed in super().read_timed(task):
            yield timed._replace(number=0)


MUTANTS = [
    enumerating("lookup takes a split to be sorted", "TIME-6", "and skips position", SearchesAsIfSorted),
    enumerating(
        "latest is none where the greatest time does not count", "TIME-26", "says none", LatestIsNoneBehindTheFuture
    ),
    Mutant("a generator sees rows backwards", "TIME-27", ("0#4",), sinful(reader=ReadsTimedBackwards)),
    Mutant(
        "a generator sees the rows of other ranges",
        "TIME-27",
        ("of 2 ranges",),
        sinful(reader=TakesAllRangesForTheFirst),
    ),
    Mutant(
        "a generator sees a time that does not count", "TIME-27", ("left out",), sinful(reader=ShowsTimesThatDoNotCount)
    ),
]
