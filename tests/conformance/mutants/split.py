import itertools
from abc import abstractmethod
from dataclasses import replace

import numpy as np

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader
from tests.conformance.mutants.changes import extents
from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.errors import DataLossError


def real(name):
    """Return the store's name of a split."""
    return str(name).rpartition("/")[2]


class Renamed(MemoryEnumerator):
    """Names splits by a prefix that ends in /, and the store's name."""

    @abstractmethod
    def name(self, split):
        """Return this enumerator's name of a split of the store."""

    def discover(self):
        return [self.name(split) for split in super().discover()]

    def extents(self, splits):
        extents = super().extents([real(split) for split in splits])
        return {split: extents[real(split)] for split in splits if real(split) in extents}

    def _heads(self, split, position, horizon):
        return super()._heads(real(split), position)


class ReaderOfRenamed(MemoryReader):
    def _read(self, client, wanted):
        return super()._read(client, replace(wanted, split_id=real(wanted.split_id)))


def renamed(enumerator):
    return sinful(enumerator=enumerator, reader=ReaderOfRenamed)


class StartsLateSplitsAtTheirEnd(MemoryEnumerator):
    def starts(self, splits, *, first):
        extents = self.extents(splits)
        return {s: extent.begin if first else extent.end for s, extent in extents.items()}


class LooksOnce(MemoryEnumerator):
    _splits = None

    def discover(self):
        self._splits = self._splits or super().discover()
        return self._splits


class StartsLateSplitsAsTheOptionSays(MemoryEnumerator):
    def starts(self, splits, *, first):
        return super().starts(splits, first=True)


class FindsTheFirstPage(MemoryEnumerator):
    def discover(self):
        return super().discover()[:3]


class NamesByNumber(MemoryEnumerator):
    def discover(self):
        return range(len(super().discover()))


class NamesThatAreNoText(Renamed):
    def name(self, split):
        return f"\udcff/{split}"


class NamesWithTheSize(Renamed):
    def name(self, split):
        return f"{MemoryEnumerator.extents(self, [split])[split].end}/{split}"


class NamesByHash(Renamed):
    def name(self, split):
        return f"{hash(split)}/{split}"


class TwoNamesForOneSplit(Renamed):
    def name(self, split):
        return split

    def discover(self):
        splits = super().discover()
        return [*splits, *(f"again/{split}" for split in splits)]


class FindsOnlyWhatIsNew(MemoryEnumerator):
    _known = frozenset()

    def discover(self):
        splits = set(super().discover())
        new, self._known = splits - self._known, splits
        return new


class EndsGoBack(MemoryEnumerator):
    """Sometimes asks a replica that lags behind."""

    def __init__(self, source, state):
        super().__init__(source, state)
        self._questions = itertools.count(1)

    def extents(self, splits):
        lag = 0 if next(self._questions) % 4 else 1
        return {s: replace(e, end=max(e.begin, e.end - lag)) for s, e in super().extents(splits).items()}


class NoStartForEmptySplits(MemoryEnumerator):
    def starts(self, splits, *, first):
        extents = self.extents(splits)
        return {s: at for s, at in super().starts(splits, first=first).items() if extents[s].end > at}


class StartsBehindTheFirstRow(MemoryEnumerator):
    def starts(self, splits, *, first):
        return {s: min(at + 1, self.extents([s])[s].end) for s, at in super().starts(splits, first=first).items()}


class StopsAtThePresentEnd(MemoryEnumerator):
    def stops(self, splits):
        return {split: extent.end for split, extent in self.extents(splits).items()}


class CompleteBeforeTheLastRow(MemoryEnumerator):
    """Asks for the end before it asks for completeness."""

    _complete = False

    def extents(self, splits):
        extents = super().extents(splits)
        complete = any(extent.complete for extent in extents.values())
        early, self._complete = complete and not self._complete, complete
        return {s: replace(e, end=e.end - 1) if early else e for s, e in extents.items()}


class StartsEmptySplitsBehindTheirFirstRow(MemoryEnumerator):
    def starts(self, splits, *, first):
        extents = self.extents(splits)
        return {s: extent.begin + (extent.begin == extent.end) for s, extent in extents.items()}


class FailsForWhatIsGone(MemoryEnumerator):
    def extents(self, splits):
        extents = super().extents(splits)
        return {split: extents[split] for split in splits}


class RemembersSplits(MemoryEnumerator):
    def __init__(self, source, state):
        super().__init__(source, state)
        self._splits = set()

    def discover(self):
        self._splits |= set(super().discover())
        return self._splits


class ForgetsWhatIsUnread(MemoryEnumerator):
    def forget(self, removed):
        return removed.keys()


class LosesNothing(MemoryEnumerator):
    def lost(self, removed):
        return ()


class FailsWhenASplitGoes(MemoryEnumerator):
    _known = frozenset()

    def discover(self):
        before, self._known = self._known, frozenset(super().discover())
        if not before <= self._known:
            raise DataLossError("a split is gone")
        return self._known


class BeginsWithTheOthers(MemoryEnumerator):
    """Asks for the first row of all splits."""

    def extents(self, splits):
        begin = max((extent.begin for extent in super().extents(self.discover()).values()), default=0)
        extents = super().extents(splits)
        return {split: replace(extent, begin=min(begin, extent.end)) for split, extent in extents.items()}


class StartsAtZero(MemoryEnumerator):
    def starts(self, splits, *, first):
        return dict.fromkeys(splits, 0)


MUTANTS = [
    Mutant(
        "a stream stops at the present end",
        "SPLIT-15",
        ("2 rows were written and not all delivered",),
        sinful(enumerator=StopsAtThePresentEnd),
    ),
    Mutant(
        "a split begins behind its end",
        "SPLIT-20",
        ("past its end",),
        extents(lambda e: replace(e, begin=e.begin + (e.begin == e.end))),
    ),
    Mutant(
        "a split that comes late is read from its end",
        "SPLIT-1",
        ("2 rows were written and not all delivered", "2 missing"),
        sinful(enumerator=StartsLateSplitsAtTheirEnd),
    ),
    Mutant(
        "new splits begin as the option says for the first",
        "SPLIT-2",
        ("not all delivered", "all are missing, 1#0 to 1#1"),
        sinful(enumerator=StartsLateSplitsAsTheOptionSays),
    ),
    Mutant("only the first page of splits is found", "SPLIT-3", ("2 missing",), sinful(enumerator=FindsTheFirstPage)),
    Mutant("splits are named by numbers", "SPLIT-4", ("named by int",), sinful(enumerator=NamesByNumber)),
    Mutant("names are no UTF-8", "SPLIT-4", ("cannot be written as UTF-8",), renamed(NamesThatAreNoText)),
    Mutant("names hold the size of a split", "SPLIT-5", ("is not found any more",), renamed(NamesWithTheSize)),
    Mutant("names hold a hash", "SPLIT-7", ("in another process there is no split",), renamed(NamesByHash)),
    Mutant("a split has two names", "SPLIT-3", ("more than once",), renamed(TwoNamesForOneSplit)),
    Mutant(
        "only new splits are found", "SPLIT-10", ("discover()", "by discovery 2"), sinful(enumerator=FindsOnlyWhatIsNew)
    ),
    Mutant("a split is never settled", "SPLIT-11", ("is never settled",), extents(lambda e: replace(e, settled=False))),
    Mutant("ends go back", "SPLIT-11", ("the end of 'split-0' went back",), sinful(enumerator=EndsGoBack)),
    Mutant(
        "numbers are NumPy's", "SPLIT-11", ("not an int but int64",), extents(lambda e: replace(e, end=np.int64(e.end)))
    ),
    Mutant(
        "empty splits have no start",
        "SPLIT-12",
        ("starts(first=True) does not answer for split-2",),
        sinful(enumerator=NoStartForEmptySplits),
    ),
    Mutant("starts lie behind the first row", "SPLIT-12", ("2 missing",), sinful(enumerator=StartsBehindTheFirstRow)),
    Mutant(
        "splits are complete while they grow",
        "SPLIT-14",
        ("split-0 is complete, though rows can still come",),
        extents(lambda e: replace(e, complete=True)),
    ),
    Mutant(
        "a split is complete before its last row is seen",
        "SPLIT-14",
        ("was complete at 3, but now ends at 4",),
        sinful(enumerator=CompleteBeforeTheLastRow),
    ),
    Mutant(
        "an empty split starts behind its first row",
        "SPLIT-15",
        ("before position 1",),
        sinful(enumerator=StartsEmptySplitsBehindTheirFirstRow),
    ),
    Mutant("extents fail for a split that is gone", "SPLIT-16", ("KeyError",), sinful(enumerator=FailsForWhatIsGone)),
    Mutant("splits that are gone are still found", "SPLIT-16", ("deleted, but",), sinful(enumerator=RemembersSplits)),
    Mutant("unread splits are forgotten", "SPLIT-17", ("never read",), sinful(enumerator=ForgetsWhatIsUnread)),
    Mutant("a deleted split is not lost", "SPLIT-17", ("lost() names nothing",), sinful(enumerator=LosesNothing)),
    Mutant(
        "a split that goes ends the query in spite of the option",
        "SPLIT-18",
        ("a split is gone",),
        sinful(enumerator=FailsWhenASplitGoes),
    ),
    Mutant(
        "a begin is a row early",
        "SPLIT-20",
        ("does not begin behind it",),
        extents(lambda e: replace(e, begin=max(0, e.begin - 1))),
    ),
    Mutant(
        "all splits begin where one does",
        "SPLIT-20",
        ("'split-0' began at 0, but begins at 1 since rows of 'split-1' are gone",),
        sinful(enumerator=BeginsWithTheOthers),
    ),
    Mutant("a query begins at 0", "SPLIT-21", ("DataLossError: positions 0 to 1",), sinful(enumerator=StartsAtZero)),
]
