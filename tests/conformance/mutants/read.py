from dataclasses import replace

from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.conformance.memory import MemoryReader
from tidegate.readers.contract import ReadTask


class ReadsThePositionAfterTheEnd(MemoryReader):
    def read(self, task):
        yield from super().read(ReadTask(tuple(replace(each, end=each.end + 1) for each in task.ranges)))


class SkipsTheLastRow(MemoryReader):
    def read(self, task):
        batches = list(super().read(task))
        yield from [*batches[:-1], batches[-1].slice(0, batches[-1].num_rows - 1)] if batches else []


MUTANTS = [
    Mutant(
        "the end of a range is inclusive",
        "READ-2",
        ("they differ from row",),
        sinful(reader=ReadsThePositionAfterTheEnd),
    ),
    Mutant("the last row of a task is lost", "READ-1", ("1 missing",), sinful(reader=SkipsTheLastRow)),
]
