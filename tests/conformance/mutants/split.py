from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.conformance.memory import MemoryEnumerator


class StartsLateSplitsAtTheirEnd(MemoryEnumerator):
    def starts(self, splits, *, first):
        extents = self.extents(splits)
        return {s: extent.begin if first else extent.end for s, extent in extents.items()}


MUTANTS = [
    Mutant(
        "a split that comes late is read from its end",
        "SPLIT-1",
        ("2 rows were written and not all delivered", "2 missing"),
        sinful(enumerator=StartsLateSplitsAtTheirEnd),
    ),
]
