from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.conformance.memory import MemoryEnumerator


class BoundInclusive(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        return super().lookup(event_time_ms + 1, splits)


MUTANTS = [
    Mutant("the bound is inclusive", "ALIGN-1", ("at or past the bound",), sinful(enumerator=BoundInclusive)),
]
