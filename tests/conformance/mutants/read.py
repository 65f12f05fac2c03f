from contextlib import closing
from dataclasses import replace
from itertools import groupby
from typing import ClassVar

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader
from tests.conformance.mutants.changes import ranges, rows
from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.alignment.splits import SplitRange
from tidegate.errors import DataLossError
from tidegate.readers.contract import ReadTask


def ends(change):
    """Return a harness whose reader reads from and to other positions."""
    return ranges(lambda wanted: [replace(part, **change(part.start, part.end)) for part in wanted])


def without_the_last_row(read):
    *others, last = list(read) or [None]
    return [*others, last.slice(0, last.num_rows - 1)] if last else []


def joined_over_gaps(wanted):
    for split, of_split in groupby(sorted(wanted, key=lambda part: part.split_id), lambda part: part.split_id):
        parts = list(of_split)
        yield SplitRange(split, min(part.start for part in parts), max(part.end for part in parts))


def noticing(lost):
    """Return a harness whose reader notices loss by a request of its own: ``lost(range, begin, end, task)``."""

    class NoticesLoss(MemoryReader):
        def read(self, task):
            with closing(self._source.client()) as client:
                for wanted in task.ranges:
                    begin, end, _ = client.ask("extents", [wanted.split_id])[wanted.split_id]
                    if lost(wanted, begin, end, task):
                        raise DataLossError("rows are gone")
            yield from MemoryReader(self._source.model_copy(update={"fail_on_data_loss": False})).read(task)

    return sinful(reader=NoticesLoss)


class EndsAtTheFirstHole(MemoryReader):
    def _read(self, client, wanted):
        for at in range(wanted.start, wanted.end):
            batches = list(super()._read(client, SplitRange(wanted.split_id, at, at + 1)))
            if not batches:
                return
            yield from batches


class ReadsToThePresentEnd(MemoryReader):
    def _read(self, client, wanted):
        _, end, _ = client.ask("extents", [wanted.split_id])[wanted.split_id]
        return super()._read(client, replace(wanted, end=end if wanted.end > 3 else wanted.end))


class EnumeratorThatTellsReaders(MemoryEnumerator):
    """Leaves data that readers need in the memory of its process."""

    KNOWN: ClassVar = set()

    def discover(self):
        splits = super().discover()
        self.KNOWN.update((self._source.address, split) for split in splits)
        return splits


class ReaderThatIsTold(MemoryReader):
    def read(self, task):
        known = [
            wanted
            for wanted in task.ranges
            if (self._source.address, wanted.split_id) in EnumeratorThatTellsReaders.KNOWN
        ]
        return super().read(ReadTask(tuple(known)))


class SkipsTheFirstRowThatIsLeft(MemoryReader):
    def _read(self, client, wanted):
        begin, _, _ = client.ask("extents", [wanted.split_id])[wanted.split_id]
        lost = begin > wanted.start
        return super()._read(client, replace(wanted, start=begin + 1) if lost else wanted)


def reading(reader):
    return sinful(reader=reader)


MUTANTS = [
    Mutant("the last row of a task is lost", "READ-1", ("1 missing",), reading(rows(without_the_last_row))),
    Mutant(
        "the end of a range is inclusive",
        "READ-3",
        ("position 0 of split-0 has 0#0, 0#1",),
        ends(lambda start, end: {"end": end + 1}),
    ),
    Mutant("ranges are joined over gaps", "READ-4", ("never asked for",), ranges(joined_over_gaps)),
    Mutant(
        "no rows is no limit",
        "READ-3",
        ("from 0 to 0", "adds 0#0"),
        ends(lambda start, end: {"end": end + 100 * (start == end)}),
    ),
    Mutant("reading ends at a hole", "READ-7", ("4 missing",), reading(EndsAtTheFirstHole)),
    Mutant("reading goes on to the present end", "READ-9", ("adds 0#5, 0#6",), reading(ReadsToThePresentEnd)),
    Mutant("a row is skipped after a loss", "READ-14", ("0#3", "missing"), reading(SkipsTheFirstRowThatIsLeft)),
    Mutant(
        "loss is looked for in the first range",
        "READ-27",
        ("split-0 from 0", "no error"),
        noticing(lambda wanted, begin, end, task: wanted is task.ranges[0] and begin > wanted.start),
    ),
    Mutant(
        "every deletion is a loss",
        "READ-27",
        ("no row of",),
        noticing(lambda wanted, begin, end, task: begin > 0),
    ),
    Mutant(
        "loss is looked for before the first page",
        "READ-28",
        ("deleted after the first batch",),
        noticing(lambda wanted, begin, end, task: begin > wanted.start),
    ),
    Mutant(
        "readers need the process of the enumerator",
        "READ-11",
        ("here and in another process", "the second lacks 0#0"),
        sinful(enumerator=EnumeratorThatTellsReaders, reader=ReaderThatIsTold),
    ),
]
