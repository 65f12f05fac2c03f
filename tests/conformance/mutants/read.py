import time
from abc import abstractmethod
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from typing import ClassVar

import pyarrow as pa

from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.alignment.splits import SplitRange
from tidegate.conformance.memory.reference import MemoryEnumerator, MemoryReader
from tidegate.errors import DataLossError, DeadlineError
from tidegate.readers.contract import ReadTask


class Ranges(MemoryReader):
    """Reads other ranges than those of the task."""

    @abstractmethod
    def changed(self, ranges):
        """Return the ranges that are read instead."""

    def read(self, task):
        return super().read(ReadTask(tuple(self.changed(task.ranges))))


class Batches(MemoryReader):
    """Yields other batches than it has read."""

    @abstractmethod
    def changed(self, batch):
        """Return the batch that is yielded instead."""

    def read(self, task):
        return map(self.changed, super().read(task))


class SkipsTheLastRow(MemoryReader):
    def read(self, task):
        batches = list(super().read(task))
        yield from [*batches[:-1], batches[-1].slice(0, batches[-1].num_rows - 1)] if batches else []


class ReadsBackwards(Batches):
    def changed(self, batch):
        return batch.take(list(range(batch.num_rows))[::-1])


class YieldsBatchesTwice(MemoryReader):
    def read(self, task):
        for batch in super().read(task):
            yield from (batch, batch)


class ReadsThePositionAfterTheEnd(Ranges):
    def changed(self, ranges):
        return [replace(wanted, end=wanted.end + 1) for wanted in ranges]


class BeginsBehindTheStart(Ranges):
    """Takes the start for the last position that was read, unless it is 0."""

    def changed(self, ranges):
        return [replace(wanted, start=wanted.start + 1 if wanted.start else 0) for wanted in ranges]


class TakesTheEndForACount(Ranges):
    def changed(self, ranges):
        return [replace(wanted, end=wanted.start + wanted.end) for wanted in ranges]


class ReadsWholeBlocks(Ranges):
    def changed(self, ranges):
        return [replace(wanted, start=wanted.start // 2 * 2, end=wanted.end + wanted.end % 2) for wanted in ranges]


class ReadsTheFirstRange(Ranges):
    def changed(self, ranges):
        return ranges[:1]


class KeepsRangesBySplit(Ranges):
    def changed(self, ranges):
        return {wanted.split_id: wanted for wanted in ranges}.values()


class JoinsRanges(Ranges):
    def changed(self, ranges):
        for split, of_split in groupby(
            sorted(ranges, key=lambda wanted: wanted.split_id), lambda wanted: wanted.split_id
        ):
            ends = list(of_split)
            yield SplitRange(split, min(wanted.start for wanted in ends), max(wanted.end for wanted in ends))


class ReadsTheFirstPage(Ranges):
    def changed(self, ranges):
        return [replace(wanted, end=min(wanted.end, wanted.start + 1_000)) for wanted in ranges]


class BeginsPagesWithTheLastRow(Ranges):
    def changed(self, ranges):
        for wanted in ranges:
            cuts = [*range(wanted.start + 999, wanted.end, 999), wanted.end]
            yield from (replace(wanted, start=max(wanted.start, cut - 1_000), end=cut) for cut in cuts)


class TakesNoRowsForNoLimit(Ranges):
    def changed(self, ranges):
        return [replace(wanted, end=wanted.end + 100) if wanted.start == wanted.end else wanted for wanted in ranges]


class NeedsARange(Ranges):
    def changed(self, ranges):
        return [ranges[0], *ranges[1:]]


class CountsRows(MemoryReader):
    """Takes positions for numbers of rows."""

    def _read(self, client, wanted):
        begin, end, _ = client.ask("extents", [wanted.split_id])[wanted.split_id]
        rows = pa.Table.from_batches(super()._read(client, SplitRange(wanted.split_id, begin, end)), self.schema)
        yield from rows.slice(wanted.start, wanted.end - wanted.start).to_batches()

    @property
    def schema(self):
        return self._source.arrow_schema


class EndsAtTheFirstHole(MemoryReader):
    def _read(self, client, wanted):
        for at in range(wanted.start, wanted.end):
            batches = list(super()._read(client, SplitRange(wanted.split_id, at, at + 1)))
            if not batches:
                return
            yield from batches


class WaitsForRows(MemoryReader):
    def _read(self, client, wanted):
        batches = list(super()._read(client, wanted))
        if not batches and wanted.start < wanted.end:
            raise DeadlineError("no row came within 20 s")
        yield from batches


class NullsForHoles(MemoryReader):
    def _read(self, client, wanted):
        batches = list(super()._read(client, wanted))
        schema = self._source.arrow_schema
        holes = wanted.end - wanted.start - sum(batch.num_rows for batch in batches)
        yield from batches
        if holes:
            yield pa.record_batch([pa.nulls(holes, field.type) for field in schema], schema=schema)


class ReadsOnce(MemoryReader):
    """Acknowledges rows that were read, so that they do not come again."""

    _READ: ClassVar = set()

    def read(self, task):
        for wanted in task.ranges:
            known = (self._source.address, wanted)
            if known not in self._READ:
                self._READ.add(known)
                yield from super().read(ReadTask((wanted,)))


class ReadsToThePresentEnd(MemoryReader):
    def _read(self, client, wanted):
        _, end, _ = client.ask("extents", [wanted.split_id])[wanted.split_id]
        return super()._read(client, replace(wanted, end=end if wanted.end > 3 else wanted.end))


class TellsWhenItReads(Batches):
    def changed(self, batch):
        now = pa.repeat(pa.scalar(time.time_ns() // 1_000, batch.schema.field("at").type), batch.num_rows)
        return batch.set_column(2, "at", now)


class EnumeratorThatTellsReaders(MemoryEnumerator):
    """Leaves data that readers need in the memory of its process."""

    KNOWN: ClassVar = set()

    def discover(self):
        splits = super().discover()
        self.KNOWN.update((self._source.address, split) for split in splits)
        return splits

    def close(self):
        self.KNOWN.clear()
        super().close()


class ReaderThatIsTold(MemoryReader):
    def read(self, task):
        known = [
            wanted
            for wanted in task.ranges
            if (self._source.address, wanted.split_id) in EnumeratorThatTellsReaders.KNOWN
        ]
        return super().read(ReadTask(tuple(known)))


class EnumeratorOfOneProcess(EnumeratorThatTellsReaders):
    def close(self):
        MemoryEnumerator.close(self)


class SharesIterators(MemoryReader):
    _OPEN: ClassVar = {}

    def read(self, task):
        known = (self._source.address, task.ranges)
        yield from self._OPEN.setdefault(known, super().read(task))
        del self._OPEN[known]


class FailsForLoss(MemoryReader):
    def __init__(self, source):
        super().__init__(source.model_copy(update={"fail_on_data_loss": True}))


class SkipsTheFirstRowThatIsLeft(MemoryReader):
    def _read(self, client, wanted):
        begin, _, _ = client.ask("extents", [wanted.split_id])[wanted.split_id]
        lost = begin > wanted.start
        return super()._read(client, replace(wanted, start=begin + 1) if lost else wanted)


class NoticesLoss(MemoryReader):
    """Notices loss by a request of its own; ``begins`` are the begins of the task's splits that still exist."""

    def read(self, task):
        with closing(self._source.client()) as client:
            for wanted in task.ranges:
                begin, end, _ = client.ask("extents", [wanted.split_id])[wanted.split_id]
                if self.lost(wanted, begin, end, task):
                    raise DataLossError("rows are gone")
        yield from MemoryReader(self._source.model_copy(update={"fail_on_data_loss": False})).read(task)

    @abstractmethod
    def lost(self, wanted, begin, end, task):
        """Return whether rows of a range are gone; the split has rows from begin to end."""


class TakesOneLostRowForNone(NoticesLoss):
    def lost(self, wanted, begin, end, task):
        return begin > wanted.start + 1


class NoticesLossOfWholeRanges(NoticesLoss):
    def lost(self, wanted, begin, end, task):
        return begin >= wanted.end > wanted.start


class NoticesLossWhereRowsAreLeft(NoticesLoss):
    def lost(self, wanted, begin, end, task):
        return wanted.start < begin < end


class NoticesLossInTheFirstRange(NoticesLoss):
    def lost(self, wanted, begin, end, task):
        return wanted is task.ranges[0] and begin > wanted.start


class TakesEveryDeletionForLoss(NoticesLoss):
    def lost(self, wanted, begin, end, task):
        return begin > 0


class LooksForLossOnce(NoticesLoss):
    """Checks for loss before it reads, and then reads pages of the rows that are left."""

    def lost(self, wanted, begin, end, task):
        return begin > wanted.start


class LossOfAnotherName(MemoryReader):
    def read(self, task):
        try:
            yield from super().read(task)
        except DataLossError as error:
            raise KeyError(str(error)) from None


READERS = [
    ("the last row of a task is lost", "READ-1", ("1 missing",), SkipsTheLastRow),
    ("rows come backwards", "READ-1", ("out of order: comes after 0#6",), ReadsBackwards),
    ("batches come twice", "READ-1", ("14 more than once", "comes 2 times"), YieldsBatchesTwice),
    ("the end of a range is inclusive", "READ-3", ("position 0 of split-0 has 0#0, 0#1",), ReadsThePositionAfterTheEnd),
    ("the start of a range is exclusive", "READ-3", ("not all rows are found",), BeginsBehindTheStart),
    ("the end is taken for a count", "READ-3", ("position 1 of split-0 has 0#1, 0#2",), TakesTheEndForACount),
    ("blocks are not cut", "READ-3", ("position 0 of split-0 has 0#0, 0#1",), ReadsWholeBlocks),
    ("only the first range is read", "READ-4", ("all are missing", "range 1"), ReadsTheFirstRange),
    ("ranges are kept by split", "READ-4", ("missing", "range"), KeepsRangesBySplit),
    ("ranges are joined over gaps", "READ-4", ("never asked for",), JoinsRanges),
    ("only the first page is read", "READ-5", ("9,500 missing", "0#1000"), ReadsTheFirstPage),
    ("pages begin with the last row", "READ-5", ("0#998", "comes 2 times"), BeginsPagesWithTheLastRow),
    ("no rows is no limit", "READ-6", ("from 0 to 0 gives 4 rows",), TakesNoRowsForNoLimit),
    ("a task needs a range", "READ-6", ("IndexError",), NeedsARange),
    ("rows are counted over holes", "READ-7", ("though peek() finds",), CountsRows),
    ("reading ends at a hole", "READ-7", ("4 missing",), EndsAtTheFirstHole),
    ("a hole is waited for", "READ-7", ("DeadlineError",), WaitsForRows),
    ("a hole is a null", "READ-7", ("'None' was never written",), NullsForHoles),
    ("rows are read once", "READ-9", ("reading 1 and 2", "the second lacks 0#0"), ReadsOnce),
    ("reading goes on to the present end", "READ-9", ("adds 0#5, 0#6",), ReadsToThePresentEnd),
    ("rows hold the time of reading", "READ-9", ("column 'at' differs", "0#0"), TellsWhenItReads),
    ("iterators are shared", "READ-12", ("missing", "0#0"), SharesIterators),
    ("data loss has another name", "READ-27", ("KeyError",), LossOfAnotherName),
    ("data loss ends the query in spite of the option", "READ-14", ("DataLossError",), FailsForLoss),
    ("one lost row is none", "READ-27", ("of split-1 from 0 to 5 is gone",), TakesOneLostRowForNone),
    ("loss is that of a whole range", "READ-27", ("and no error",), NoticesLossOfWholeRanges),
    ("the loss of a whole split is ignored", "READ-27", ("1#4 of split-1",), NoticesLossWhereRowsAreLeft),
    ("loss is looked for in the first range", "READ-27", ("split-0 from 0", "no error"), NoticesLossInTheFirstRange),
    ("every deletion is a loss", "READ-27", ("no row of",), TakesEveryDeletionForLoss),
    ("loss is looked for before the first page", "READ-28", ("deleted after the first batch",), LooksForLossOnce),
    ("a row is skipped after a loss", "READ-14", ("0#3", "missing"), SkipsTheFirstRowThatIsLeft),
]

MUTANTS = [
    *(Mutant(sin, killer, words, sinful(reader=reader)) for sin, killer, words, reader in READERS),
    Mutant(
        "readers need the process of the enumerator",
        "READ-11",
        ("here and in another process", "the second lacks 0#0"),
        sinful(enumerator=EnumeratorOfOneProcess, reader=ReaderThatIsTold),
    ),
]
