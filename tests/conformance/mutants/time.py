import bisect

from tests.conformance.memory.reference import MemoryEnumerator, MemorySource
from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.references import EPOCH, MILLISECOND, TimedReader
from tidegate.alignment.horizon import Horizon
from tidegate.readers.contract import TimedBatch

SECOND_MS = 1_000


class PeeksBehindThePosition(MemoryEnumerator):
    def peek(self, positions, horizon):
        return super().peek({split: position + 1 for split, position in positions.items()}, horizon)


class SeesNothingAtAHole(MemoryEnumerator):
    def peek(self, positions, horizon):
        heads = super().peek(positions, horizon)
        return {s: head if head is not None and head.position == positions[s] else None for s, head in heads.items()}


class LatestOfTheWholeSplit(MemoryEnumerator):
    def latest(self, ends, horizon):
        return super().latest(dict.fromkeys(ends, 1 << 60), horizon)


class LatestIsTheLastRows(MemoryEnumerator):
    def latest(self, ends, horizon):
        times = {
            s: [h.event_time_ms for h in self._heads(s, 0, horizon) if h.position < end] for s, end in ends.items()
        }
        return {split: split_times[-1] if split_times else None for split, split_times in times.items()}


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


class PeeksAtAThousandRows(MemoryEnumerator):
    def peek(self, positions, horizon):
        heads = super().peek(positions, horizon)
        return {s: h if h is not None and h.position < positions[s] + 1_000 else None for s, h in heads.items()}


class LooksBehindTheTime(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        return super().lookup(event_time_ms + 1, splits)


class FindsTheLastOfEqualTimes(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        heads = super().lookup(event_time_ms, splits)
        return {
            s: head and max(h for h in self._heads(s, 0, Horizon()) if h.event_time_ms == head.event_time_ms)
            for s, head in heads.items()
        }


class SearchesAsIfSorted(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        firsts = {}
        for split in splits:
            heads = list(self._heads(split, 0, Horizon()))
            at = bisect.bisect_left(heads, event_time_ms, key=lambda head: head.event_time_ms)
            firsts[split] = heads[at] if at < len(heads) else None
        return firsts


class LeavesOutWhatIsToFail(MemorySource):
    def usable_ms(self, split, record, horizon):
        ignoring = {"bad_event_time": "ignore", "future_event_time": "ignore"}
        return MemorySource.usable_ms(self.model_copy(update=ignoring), split, record, horizon)


class LeavesOutMissingTimes(MemorySource):
    def usable_ms(self, split, record, horizon):
        return None if record.row.event_time_ms is None else super().usable_ms(split, record, horizon)


class TakesMissingTimesForZero(MemorySource):
    def usable_ms(self, split, record, horizon):
        return 0 if record.row.event_time_ms is None else super().usable_ms(split, record, horizon)


def enumerating(sin, killer, words, enumerator):
    return Mutant(sin, killer, (words,), sinful(enumerator=enumerator))


def planning(sin, killer, words, open_run):
    return Mutant(sin, killer, (words,), sinful(), open_run)


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
    enumerating("peek is blind at holes", "TIME-1", "says none", SeesNothingAtAHole),
    enumerating(
        "peek skips the position itself", "TIME-1", "yields from there is position 0 of +0 s", PeeksBehindThePosition
    ),
    Mutant(
        "a missing time is taken for 0",
        "TIME-3",
        ("peek() of 'split-0' at 0 says position 1",),
        sinful(source=TakesMissingTimesForZero),
    ),
    enumerating("latest looks beyond the end", "TIME-4", "but there is no row before it", LatestOfTheWholeSplit),
    enumerating("lookup finds what is after the time", "TIME-6", "of +0 s says position 1", LooksBehindTheTime),
    enumerating(
        "lookup finds the last of equal times", "TIME-6", "says position 5 of +2.5 s", FindsTheLastOfEqualTimes
    ),
    enumerating("lookup takes a split to be sorted", "TIME-7", "and skips position", SearchesAsIfSorted),
    enumerating(
        "latest is that of the last row",
        "TIME-5",
        "before 3 says 1767225603000, but the greatest",
        LatestIsTheLastRows,
    ),
    enumerating(
        "latest is none where the greatest time does not count", "TIME-26", "says none", LatestIsNoneBehindTheFuture
    ),
    enumerating("peek looks at a thousand rows", "TIME-26", "peek() finds +0 s, but", PeeksAtAThousandRows),
    Mutant(
        "a missing time fails nothing",
        "TIME-18",
        ("0#2 is delivered with badEventTime=fail",),
        sinful(source=LeavesOutMissingTimes),
    ),
    Mutant(
        "a time in the future fails nothing",
        "TIME-18",
        ("0#2 is delivered with badEventTime=fail",),
        sinful(source=LeavesOutWhatIsToFail),
    ),
    Mutant("a generator sees rows backwards", "TIME-27", ("0#4",), sinful(reader=ReadsTimedBackwards)),
    Mutant(
        "a generator sees the rows of other ranges",
        "TIME-27",
        ("of 2 ranges",),
        sinful(reader=TakesAllRangesForTheFirst),
    ),
    Mutant(
        "a generator sees a time that does not count", "TIME-28", ("left out",), sinful(reader=ShowsTimesThatDoNotCount)
    ),
]
