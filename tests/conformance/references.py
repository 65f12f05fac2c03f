"""Connectors that keep the rules of what the reference connector, which has only what it needs, does not have."""

import time
from datetime import datetime, timedelta, timezone

import pyarrow as pa

from tests.conformance.mutants.mutant import sinful
from tidegate.alignment.budget import Cost
from tidegate.conformance.memory.reference import MemoryEnumerator, MemoryReader
from tidegate.readers.contract import ReadTask, TimedBatch

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)


class WholeEnumerator(MemoryEnumerator):
    """Has every optional protocol."""

    positions_are_rows = True

    def __init__(self, source, state):
        super().__init__(source, state)
        self._committed = {}

    def wall_clock(self):
        return time.time()

    def commit(self, positions):
        self._committed = dict(positions)

    def metrics(self):
        return {"committedPositions": sum(self._committed.values())}

    def details(self, wanted):
        return {"store": self._state["store"]}

    def cost(self, ranges):
        rows = sum(each.end - each.start for each in ranges.values())
        return Cost(rows, bytes=100 * rows)


class TimedReader(MemoryReader):
    """Knows event times, too."""

    def read_timed(self, task):
        for number, wanted in enumerate(task.ranges):
            for batch in self.read(ReadTask((wanted,))):
                times = pa.array([self.time_of(row) for row in batch.to_pylist()], pa.int64())
                yield TimedBatch(number, batch, times)

    def time_of(self, row):
        at_ms = None if row["at"] is None else (row["at"] - EPOCH) // MILLISECOND
        return self._source.usable_time_ms(at_ms, row["key"])


REFERENCES = {
    **dict.fromkeys(("LIFE-14", "LIFE-15", "LIFE-16", "LIFE-17", "LIFE-18"), sinful(enumerator=WholeEnumerator)),
    **dict.fromkeys(("TIME-27", "TIME-28", "TIME-29", "TIME-30"), sinful(reader=TimedReader)),
}
