"""Connectors that keep the rules about abilities that the minimal reference lacks, and how one with a sin is made."""

from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tests.conformance.memory.reference import MemoryEnumerator, MemoryHarness, MemoryReader, MemorySource
from tests.conformance.memory.store import MemoryWriter
from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Head
from tidegate.conformance.harness import Ability, HarnessFactory, Row
from tidegate.enumerators.contract import ReaderPeek
from tidegate.readers.contract import ReadTask, TimedBatch


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


POSITION = pa.field("position", pa.int64())
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)


class CostingEnumerator(MemoryEnumerator):
    """Has cost()."""

    positions_are_rows = True

    def cost(self, ranges):
        rows = sum(span.end - span.start for span in ranges.values())
        return Cost(rows, bytes=100 * rows)


class TimedReader(MemoryReader):
    """Gives event times, too."""

    def read_timed(self, task):
        for number, wanted in enumerate(task.ranges):
            for batch in self.read(ReadTask((wanted,), horizon=task.horizon)):
                times = pa.array([self.time_of(row, task.horizon) for row in batch.to_pylist()], pa.int64())
                yield TimedBatch(number, batch, times)

    def time_of(self, row, horizon):
        at_ms = None if row["at"] is None else (row["at"] - EPOCH) // MILLISECOND
        return self._source.usable_time_ms(at_ms, row["key"], horizon)


_NOBODY = -1  # the split of a bad record


class AsideSource(MemorySource):
    """Sets bad records aside if its option says so."""

    aside: bool = False

    @property
    def sets_bad_records_aside(self):
        return self.aside

    def usable_ms(self, split, record, horizon):
        return None if record.row.split == _NOBODY else super().usable_ms(split, record, horizon)


class AsideReader(MemoryReader):
    """Counts bad records, but writes them nowhere."""

    def __init__(self, source):
        super().__init__(source)
        self.bad_records = {}

    def without_writing(self):
        return copy(self)

    def _read(self, client, wanted):
        for batch in super()._read(client, wanted):
            bad = pc.starts_with(batch.column("key"), f"{_NOBODY}#")
            self.count(wanted, pc.sum(bad).as_py())
            yield batch.filter(pc.invert(bad))

    def count(self, wanted, number):
        self.bad_records[wanted] = self.bad_records.get(wanted, 0) + number


class AsideWriter(MemoryWriter):
    def append_bad_record(self):
        self.append([Row(_NOBODY, 0, None, None)])


class AsideHarness(MemoryHarness):
    bad_records: ClassVar = {"aside": "true"}

    def create_split(self):
        return AsideWriter(self.store)


def aside(reader=AsideReader):
    """Return the harness of a connector that sets bad records aside."""
    return sinful(source=AsideSource, reader=reader, harness=AsideHarness)


class LookingUpEnumerator(MemoryEnumerator):
    """Leaves the greatest times to the planner's peeks, as the page on connectors allows."""

    def latest(self, ends, horizon):
        return {}


class PartlyEnumerator(MemoryEnumerator):
    """Leaves the greatest time of one split to the planner's peeks."""

    def latest(self, ends, horizon):
        found = super().latest(ends, horizon)
        return {split: found[split] for split in sorted(found)[1:]}


class PeekingEnumerator(LookingUpEnumerator):
    """Has no time index either."""

    lookup = None


class PlacedSource(MemorySource):
    """Has rows with their positions."""

    @property
    def arrow_schema(self):
        return super().arrow_schema.append(POSITION)


class PlacedReader(MemoryReader):
    """Gives each row with its position."""

    def _read(self, client, wanted):
        records = client.ask("records", wanted.split_id, wanted.start, wanted.end)
        first = 0
        for batch in super()._read(client, wanted):
            positions = [record.position for record in records[first : first + batch.num_rows]]
            first += batch.num_rows
            yield batch.append_column(POSITION, pa.array(positions, POSITION.type))


class ReadingEnumerator(ReaderPeek, PeekingEnumerator):
    """Peeks through the reader, which the page on connectors has as a part."""

    def __init__(self, source, state):
        PeekingEnumerator.__init__(self, source, state)
        ReaderPeek.__init__(self, PlacedReader(source), self._heads_by_peek, self.extents)

    def _heads_by_peek(self, batch, horizon):
        for row in batch.to_pylist():
            at_ms = None if row["at"] is None else (row["at"] - EPOCH) // MILLISECOND
            if (usable_ms := self._source.usable_time_ms(at_ms, row["key"], horizon)) is not None:
                yield Head(row["position"], usable_ms)


class WithoutIndex(MemoryHarness):
    abilities = MemoryHarness.abilities.cannot(Ability.TIME_INDEX, "it has none")


WITHOUT_LATEST = {
    "lookups": sinful(enumerator=LookingUpEnumerator),
    "all but one": sinful(enumerator=PartlyEnumerator),
    "peeks": sinful(enumerator=PeekingEnumerator, harness=WithoutIndex),
    "reads": sinful(enumerator=ReadingEnumerator, reader=PlacedReader, source=PlacedSource, harness=WithoutIndex),
}

REFERENCES = {
    "WHOLE-1": sinful(enumerator=CostingEnumerator),
    "READ-30": aside(),
    "TIME-27": sinful(reader=TimedReader),
}
