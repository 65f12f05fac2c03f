"""Sins that need a part of their own: a reader, an enumerator or a client of the reference connector."""

import pickle
from pathlib import Path

from tests.conformance.memory.reference import MemoryEnumerator, MemoryHarness, MemoryReader, MemorySource
from tests.conformance.memory.store import MemoryStore, StoreClient
from tests.conformance.references import EPOCH, MILLISECOND, AsideReader, Mutant, TimedReader, aside, sinful
from tidegate.alignment.budget import Cost
from tidegate.errors import ConnectorError
from tidegate.readers.contract import TimedBatch


class CountsHalfOfTheRows(MemoryEnumerator):
    positions_are_rows = False

    def cost(self, ranges):
        return Cost(rows=sum(r.end - r.start for r in ranges.values()) // 2)


class KnowsTheCostOfNothing(MemoryEnumerator):
    positions_are_rows = True

    def cost(self, ranges):
        raise KeyError(*ranges)


class LocksOthersOut(MemoryEnumerator):
    LOCKED = {}  # noqa: RUF012 - of all enumerators

    def discover(self):
        if self.LOCKED.setdefault(self._client.name, self) is not self:
            raise ConnectorError("another query reads this store")
        return super().discover()

    def close(self):
        self.LOCKED.pop(self._client.name, None)
        super().close()


class LeaksWhenGivenUp(MemoryReader):
    KEPT = []  # noqa: RUF012 - of all readers

    def read(self, task):
        file = Path(__file__).open()  # noqa: SIM115 - it is what leaks
        self.KEPT.append(file)
        yield from super().read(task)
        self.KEPT.remove(file)
        file.close()


class ClosesWhatWasKept(MemoryHarness):
    def close(self):
        super().close()
        while LeaksWhenGivenUp.KEPT:
            LeaksWhenGivenUp.KEPT.pop().close()


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


class DeliversBadRecords(AsideReader):
    _read = MemoryReader._read


class CountsNone(AsideReader):
    def count(self, wanted, number):
        pass


class CountsInTheFirstRange(AsideReader):
    def count(self, wanted, number):
        super().count(next(iter(self.bad_records), wanted), number)


class DeliversThemToThePlanner(AsideReader):
    def without_writing(self):
        return MemoryReader(self._source)


class RaisesWhatItGets(StoreClient):
    def ask(self, method, *arguments):
        try:
            return super().ask(method, *arguments)
        except ConnectorError as error:
            raise OSError(str(error)) from None


class SaysTheKey(StoreClient):
    def ask(self, method, *arguments):
        try:
            return super().ask(method, *arguments)
        except ConnectorError as error:
            raise ConnectorError(f"{error}; the key is {self._key}") from None


class BelievesEverything(StoreClient):
    def _attempt(self, method, arguments):
        store = MemoryStore.of_this_process(self.name)
        return pickle.loads(store.answer(method, arguments)[4:])  # noqa: S301 - the test made the bytes


def with_client(client):
    class Source(MemorySource):
        def client(self):
            return client(self.address, 0.1)

    return sinful(source=Source)


MUTANTS = [
    Mutant("every second row is counted", "WHOLE-1", "rows, but 1 are allowed", sinful(enumerator=CountsHalfOfTheRows)),
    Mutant("cost knows no split", "ALIGN-27", "KeyError: ", sinful(enumerator=KnowsTheCostOfNothing)),
    Mutant("only close() lets the next run in", "STATE-7", "another query reads", sinful(enumerator=LocksOthersOut)),
    Mutant(
        "a reader that is given up leaks",
        "LIFE-2",
        "more of the kind 'file'",
        sinful(reader=LeaksWhenGivenUp, harness=ClosesWhatWasKept),
    ),
    Mutant("a generator sees rows backwards", "TIME-27", "0#4", sinful(reader=ReadsTimedBackwards)),
    Mutant(
        "a generator sees the rows of other ranges", "TIME-27", "of 2 ranges", sinful(reader=TakesAllRangesForTheFirst)
    ),
    Mutant(
        "a generator sees a time that does not count", "TIME-27", "left out", sinful(reader=ShowsTimesThatDoNotCount)
    ),
    Mutant("bad records are delivered", "READ-30", "never written: -1#0", aside(reader=DeliversBadRecords)),
    Mutant("bad records are not counted", "READ-30", "4 bad records were written", aside(reader=CountsNone)),
    Mutant(
        "bad records count in the first range",
        "READ-30",
        "2 bad records when its positions are read alone, but 4",
        aside(reader=CountsInTheFirstRange),
    ),
    Mutant(
        "the planner's reader delivers bad records",
        "READ-30",
        "read with writing, and without",
        aside(reader=DeliversThemToThePlanner),
    ),
    Mutant(
        "a reader counts nothing where its source says so",
        "READ-30",
        "is not a SupportsBadRecords",
        aside(reader=MemoryReader),
    ),
    Mutant("an error shows the key", "FAULT-1", "shows a secret", with_client(SaysTheKey)),
    Mutant("no checksum is checked", "FAULT-3", "raises", with_client(BelievesEverything)),
    Mutant("an error comes with its whole stack trace", "FAULT-6", "has a traceback", with_client(RaisesWhatItGets)),
]
