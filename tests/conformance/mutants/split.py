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


class NamesWithTheSize(Renamed):
    def name(self, split):
        return f"{MemoryEnumerator.extents(self, [split])[split].end}/{split}"


class NamesByHash(Renamed):
    def name(self, split):
        return f"{hash(split)}/{split}"


class EndsGoBack(MemoryEnumerator):
    """Sometimes asks a replica that lags behind."""

    def __init__(self, source, state):
        super().__init__(source, state)
        self._questions = itertools.count(1)

    def extents(self, splits):
        lag = 0 if next(self._questions) % 4 else 1
        return {s: replace(e, end=max(e.begin, e.end - lag)) for s, e in super().extents(splits).items()}


class FailsWhenASplitGoes(MemoryEnumerator):
    _known = frozenset()

    def discover(self):
        before, self._known = self._known, frozenset(super().discover())
        if not before <= self._known:
            raise DataLossError("a split is gone")
        return self._known


MUTANTS = [
    Mutant("names hold the size of a split", "SPLIT-5", ("is not found any more",), renamed(NamesWithTheSize)),
    Mutant("names hold a hash", "READ-11", ("found here and in another process",), renamed(NamesByHash)),
    Mutant("ends go back", "SPLIT-11", ("the end of 'split-0' went back",), sinful(enumerator=EndsGoBack)),
    Mutant(
        "a split that goes ends the query in spite of the option",
        "SPLIT-18",
        ("a split is gone",),
        sinful(enumerator=FailsWhenASplitGoes),
    ),
]
