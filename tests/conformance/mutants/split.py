import itertools
from abc import abstractmethod
from dataclasses import replace

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader
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


class LooksOnce(MemoryEnumerator):
    _splits = None

    def discover(self):
        self._splits = self._splits or super().discover()
        return self._splits


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


class CompleteBeforeTheLastRow(MemoryEnumerator):
    """Asks for the end before it asks for completeness."""

    _complete = False

    def extents(self, splits):
        extents = super().extents(splits)
        complete = any(extent.complete for extent in extents.values())
        early, self._complete = complete and not self._complete, complete
        return {s: replace(e, end=e.end - 1) if early else e for s, e in extents.items()}


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


MUTANTS = [
    Mutant("names hold the size of a split", "SPLIT-5", ("is not found any more",), renamed(NamesWithTheSize)),
    Mutant("names hold a hash", "SPLIT-7", ("in another process there is no split",), renamed(NamesByHash)),
    Mutant("a split has two names", "SPLIT-3", ("more than once",), renamed(TwoNamesForOneSplit)),
    Mutant(
        "only new splits are found", "SPLIT-10", ("discover()", "by discovery 2"), sinful(enumerator=FindsOnlyWhatIsNew)
    ),
    Mutant("ends go back", "SPLIT-11", ("the end of 'split-0' went back",), sinful(enumerator=EndsGoBack)),
    Mutant(
        "a split is complete before its last row is seen",
        "SPLIT-14",
        ("was complete at 3, but now ends at 4",),
        sinful(enumerator=CompleteBeforeTheLastRow),
    ),
    Mutant(
        "a split that goes ends the query in spite of the option",
        "SPLIT-18",
        ("a split is gone",),
        sinful(enumerator=FailsWhenASplitGoes),
    ),
    Mutant(
        "all splits begin where one does",
        "SPLIT-20",
        ("'split-0' began at 0, but begins at 1 since rows of 'split-1' are gone",),
        sinful(enumerator=BeginsWithTheOthers),
    ),
]
