"""A connector with one sin, and the rule that must find it."""

from dataclasses import dataclass
from functools import cache

from tests.conformance.memory.reference import MemoryEnumerator, MemoryHarness, MemoryReader, MemorySource
from tidegate.conformance.harness import HarnessFactory


@dataclass(frozen=True)
class Mutant:
    """A connector with a sin.

    sin: the sin in a few words.
    killer: the id of the rule that must fail.
    words: a part of the rule's message.
    patience_s: the number of seconds to wait for an event that must come, see Lab; a busy machine takes 0.3 s at times.
    """

    sin: str
    killer: str
    words: str
    harness: HarnessFactory
    patience_s: float = 1.0


def sinful(*, enumerator=MemoryEnumerator, reader=MemoryReader, source=MemorySource, harness=MemoryHarness):
    """Return a harness of the reference connector with parts of another class in it.

    The class of its source is made when it is needed, since pydantic takes long for each.
    """

    @cache
    def sinful_source():
        class SinfulSource(source):
            def enumerator(self, state):
                return super().enumerator(state) if enumerator is MemoryEnumerator else enumerator(self, state)

            def reader(self, state):
                return super().reader(state) if reader is MemoryReader else reader(self)

        return SinfulSource

    class SinfulHarness(harness):
        @property
        def source_class(self):
            return sinful_source()

    return SinfulHarness
