import subprocess
import sys
import threading
from contextlib import closing
from typing import Any

from pydantic import PrivateAttr

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader, MemorySource
from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.mutants.planners import Around
from tidegate.alignment.budget import Cost

KEPT_OPEN = []


class BatchesBeginAtTheEnd(MemorySource):
    def as_batch(self):
        return self.model_copy(update={"starting": "latest"})


class KnowsOnlyTheSplitsOfItsSnapshot(MemoryEnumerator):
    def __init__(self, source, state):
        super().__init__(source, state)
        self._state |= state or {}

    def discover(self):
        return self._state.setdefault("splits", super().discover())


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


class LeavesAProcess(MemoryEnumerator):
    def discover(self):
        if "left" not in self.__dict__:
            # The process must outlive the planner while the rule watches it.  Nobody is left then to end it.
            self.left = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True, stdout=subprocess.DEVNULL
            )
        return super().discover()


class LeavesAConnection(MemoryReader):
    def read(self, task):
        client = self._source.client()
        KEPT_OPEN.append(client)
        client.ask("splits")
        yield from super().read(task)


class LooksUpTooLate(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        return super().lookup(event_time_ms + 30_000, splits)


class SaysThatRowsCostNothing(MemoryEnumerator):
    positions_are_rows = False

    def cost(self, ranges):
        return Cost()


class DividesOtherwise(Around):
    """Reverses the order of tasks in a later planner."""

    def tasks(self, start, end):
        return self.run.tasks(start, end)[::-1]


class HoldsWhatIsOpen(MemorySource):
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


MUTANTS = [
    Mutant("a batch query begins at the end", "SPARK-1", ("missing",), sinful(source=BatchesBeginAtTheEnd)),
    Mutant(
        "a restart knows only the splits of its snapshot",
        "SPARK-2",
        ("2 missing",),
        sinful(enumerator=KnowsOnlyTheSplitsOfItsSnapshot),
    ),
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
    Mutant(
        "a process of the planner outlives it",
        "SPARK-5",
        ("after stop() there is still", "that the planner started"),
        sinful(enumerator=LeavesAProcess),
        patience_s=4.0,
    ),
    Mutant(
        "a connection of an executor is never closed",
        "SPARK-5",
        ("after stop() there is still", "a connection of the worker process"),
        sinful(reader=LeavesAConnection),
    ),
    Mutant(
        "lookup answers half a minute too late", "SPARK-6", ("at or past the bound",), sinful(enumerator=LooksUpTooLate)
    ),
    Mutant(
        "rows are said to cost nothing",
        "SPARK-8",
        ("though no more than 3 were asked for",),
        sinful(enumerator=SaysThatRowsCostNothing),
    ),
    Mutant(
        "a later planner divides a batch otherwise",
        "SPARK-9",
        ("asked for in two processes, are not the same",),
        sinful(),
        DividesOtherwise,
    ),
    Mutant("a source holds an open resource", "SPARK-10", ("cannot be pickled",), sinful(source=HoldsWhatIsOpen)),
]
