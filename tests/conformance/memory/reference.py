"""The reference connector: the plainest code that keeps every rule.

It reads rows from memory (``MemoryStore``); the mutants of the kit are variants of it.
"""

from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Annotated, ClassVar

import pyarrow as pa
from pydantic import Field

from tests.conformance.memory.store import MemoryStore, MemoryWriter, StoreClient
from tidegate.alignment.splits import Extent, Head, Horizon
from tidegate.conformance.harness import Harness
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.errors import CheckpointError, DataLossError
from tidegate.readers.contract import SplitReader
from tidegate.sources.options import Duration
from tidegate.sources.source import Source

_SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("at", pa.timestamp("us", "UTC"))])
_BATCH_ROWS = 1_000
_BATCH_BYTES = 4 << 20


class MemorySource(Source):
    """Reads the MemoryStore of an address, within a deadline if it is away."""

    connector: ClassVar[str] = "memory"
    address: Annotated[str, Field(pattern="^[0-9a-f]+:[0-9a-f]+@.+:[0-9]+$", repr=False)]
    starting: Annotated[str, Field(pattern="^(earliest|latest)$")] = "earliest"
    deadline: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(seconds=20)

    @property
    def arrow_schema(self):
        return _SCHEMA

    def enumerator(self, state):
        return MemoryEnumerator(self, state)

    def reader(self, state):
        return MemoryReader(self)

    def client(self):
        """Return a new client of the store, which connects with its first request."""
        return StoreClient(self.address, self.deadline.total_seconds())

    def usable_ms(self, split, record, horizon):
        """Return the event time that a row counts with; None: planning leaves it out."""
        return self.usable_time_ms(
            record.row.event_time_ms,
            f"{split}: the row at {record.position}",
            horizon,
            record_timestamp_ms=record.written_ms,
        )


class MemoryEnumerator(SplitEnumerator):
    """Asks the store; knows nothing by itself."""

    def __init__(self, source, state):
        self._source, self._client = source, source.client()
        self._state = {"v": 1, "store": self._client.name}
        if state is not None and (state.get("v"), state.get("store")) != (1, self._state["store"]):
            raise CheckpointError("the checkpoint was written for another store, or is broken")

    def discover(self):
        return self._client.ask("splits")

    def starts(self, splits, *, first):
        at_end = first and self._source.starting == "latest"
        return {split: extent.end if at_end else extent.begin for split, extent in self.extents(splits).items()}

    def extents(self, splits):
        answers = self._client.ask("extents", list(splits))
        return {split: Extent(begin, end, complete=complete) for split, (begin, end, complete) in answers.items()}

    def peek(self, positions, horizon):
        return {split: next(self._heads(split, position, horizon), None) for split, position in positions.items()}

    def latest(self, ends, horizon):
        times = {
            split: [h.event_time_ms for h in self._heads(split, 0, horizon) if h.position < end]
            for split, end in ends.items()
        }
        return {split: max(of_split, default=None) for split, of_split in times.items()}

    def lookup(self, event_time_ms, splits):
        heads = {s: self._heads(s, 0, Horizon()) for s in splits}
        return {s: next((h for h in heads[s] if h.event_time_ms >= event_time_ms), None) for s in splits}

    def snapshot(self):
        return self._state

    def close(self):
        self._client.close()

    def _heads(self, split, position, horizon):
        for record in self._client.ask("records", split, position, None):
            at_ms = self._source.usable_ms(split, record, horizon)
            if at_ms is not None:
                yield Head(record.position, at_ms)


class MemoryReader(SplitReader):
    """Reads ranges, a thousand rows or 4 MB at a time."""

    def __init__(self, source):
        self._source, self._horizon = source, Horizon()

    def read(self, task):
        self._horizon = task.horizon
        with closing(self._source.client()) as client:
            for wanted in task.ranges:
                yield from self._read(client, wanted)

    def _read(self, client, wanted):
        position = wanted.start
        while position < wanted.end:
            extent = client.ask("extents", [wanted.split_id]).get(wanted.split_id)
            if self._source.fail_on_data_loss and (extent is None or extent[0] > position):
                raise DataLossError(f"rows of {wanted.split_id} from {position} on are gone; see failOnDataLoss")
            end = min(position + _BATCH_ROWS, wanted.end)
            records = client.ask("records", wanted.split_id, position, end, _BATCH_BYTES)
            for record in records:
                self._source.usable_ms(wanted.split_id, record, self._horizon)
            if records:
                yield _batch([record.row for record in records])
            position = records[-1].position + 1 if records else end


def _batch(rows):
    times = [None if row.event_time_ms is None else row.event_time_ms * 1_000 for row in rows]
    return pa.record_batch(
        [[row.key for row in rows], [row.value for row in rows], pa.array(times, _SCHEMA.field("at").type)],
        schema=_SCHEMA,
    )


class MemoryHarness(Harness):
    """A store of its own; it can do everything.

    source_class: of its source; a mutant in tests of the kit.
    """

    event_time_column = "at"
    start_at_end: Mapping[str, str] = {"starting": "latest"}
    source_class: ClassVar = MemorySource

    def __init__(self):
        self.store = MemoryStore()
        self.secrets = (self.store.key,)

    def source(self, options):
        return self.source_class.from_options({"address": self.store.address, "deadline": "1 second", **options})

    def create_split(self):
        return MemoryWriter(self.store)

    def fault(self, kind):
        return self.store.failing(kind)

    def close(self):
        self.store.close()
