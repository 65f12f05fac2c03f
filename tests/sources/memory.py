"""A source of rows in a file, with its own enumerator and reader, and without a line of Kafka code.

Planner, driver and executors are different processes, so the splits live in a JSON file that tests
append to: {"a": [[position, event_time_ms], ...], ...}.
"""

import json
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import Extent, Head
from tidegate.enumerators.contract import ReaderPeek, SplitEnumerator
from tidegate.readers.contract import ReadTask, SplitReader, TimedBatch
from tidegate.sources.source import Source

SCHEMA = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("position", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def append(path, **splits):
    """Add records, given as lists of event times in ms, to the end of splits."""
    logs = load(path)
    for name, times in splits.items():
        log = logs.setdefault(name, [])
        first = log[-1][0] + 1 if log else 0
        log.extend([first + i, at] for i, at in enumerate(times))
    new = Path(path).with_suffix(".new")
    new.write_text(json.dumps(logs))
    new.replace(path)


def load(path):
    return json.loads(Path(path).read_text()) if Path(path).exists() else {}


class MemoryReader(SplitReader):
    def __init__(self, path):
        self.path = path

    def read(self, task):
        logs = load(self.path)
        for wanted in task.ranges:
            rows = [(wanted.split_id, p, t * 1000) for p, t in logs[wanted.split_id] if wanted.start <= p < wanted.end]
            for i in range(0, len(rows), 1000):
                columns = zip(*rows[i : i + 1000], strict=True)
                yield pa.record_batch(
                    [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
                )

    def read_timed(self, task):
        for number, wanted in enumerate(task.ranges):
            for rows in self.read(ReadTask((wanted,))):
                times = pc.divide(rows["timestamp"].cast(pa.int64()), 1000)
                yield TimedBatch(number, rows, times)


class MemoryEnumerator(ReaderPeek, SplitEnumerator):
    def __init__(self, path, *, ends=False):
        super().__init__(MemoryReader(path), self._heads, self.extents)
        self.path, self.ends = path, ends

    @staticmethod
    def _heads(batch, horizon):
        del horizon  # all its times count
        for position, at in zip(
            batch["position"].to_pylist(), batch["timestamp"].cast(pa.int64()).to_pylist(), strict=True
        ):
            yield Head(position, at // 1000)

    def discover(self):
        return load(self.path).keys()

    def starts(self, splits, *, first):
        return dict.fromkeys(splits, 0)

    def stops(self, splits):
        return {s: extent.end if self.ends else None for s, extent in self.extents(splits).items()}

    def extents(self, splits):
        logs = load(self.path)
        return {s: Extent(0, logs[s][-1][0] + 1 if logs[s] else 0) for s in splits}


class MemorySource(Source):
    connector: ClassVar[str] = "memory"

    path: str
    max_rows_per_trigger: int | None = None
    ends: bool = False

    @property
    def arrow_schema(self):
        return SCHEMA

    @property
    def budget(self):
        return Budget(rows=self.max_rows_per_trigger)

    def enumerator(self, state):
        return MemoryEnumerator(self.path, ends=self.ends)

    def reader(self, state):
        return MemoryReader(self.path)
