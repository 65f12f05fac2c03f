import threading
from contextlib import closing
from typing import Any

from pydantic import PrivateAttr

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader, MemorySource
from tests.conformance.mutants.mutant import Mutant, sinful


class BatchesBeginAtTheEnd(MemorySource):
    def as_batch(self):
        return self.model_copy(update={"starting": "latest"})


class TakesAwayWhatItReads(MemoryReader):
    def __init__(self, source):
        super().__init__(source.model_copy(update={"fail_on_data_loss": False}))

    def read(self, task):
        yield from super().read(task)
        with closing(self._source.client()) as client:
            for wanted in task.ranges:
                client.ask("trim", wanted.split_id, wanted.end)


class LooksOnceForTheEnd(MemoryEnumerator):
    def extents(self, splits):
        known = self.__dict__.setdefault("known", {})
        known |= super().extents([s for s in splits if s not in known])
        return {s: known[s] for s in splits}


class HoldsWhatIsOpen(MemorySource):
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


MUTANTS = [
    Mutant("a batch query begins at the end", "SPARK-1", ("missing",), sinful(source=BatchesBeginAtTheEnd)),
    Mutant(
        "a reader takes away what it reads",
        "SPARK-2",
        ("before and after a restart", "(nothing)"),
        sinful(reader=TakesAwayWhatItReads),
    ),
    Mutant(
        "the end of a split is looked for once in a run",
        "SPARK-4",
        ("a running stream has not delivered all of",),
        sinful(enumerator=LooksOnceForTheEnd),
    ),
    Mutant("a source holds an open resource", "SPARK-10", ("cannot be pickled",), sinful(source=HoldsWhatIsOpen)),
]
