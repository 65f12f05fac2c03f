"""The reference connector: the plainest code that keeps every rule.

It reads rows from memory (``MemoryStore``); the mutants of the kit are variants of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from typing import Annotated, ClassVar

import pyarrow as pa
from pydantic import Field

from tidegate.alignment.horizon import Horizon
from tidegate.alignment.splits import Extent, Head, Positions, SplitId, SplitRange
from tidegate.conformance.harness import Fault, Harness, Row, Writer
from tidegate.conformance.memory.store import MemoryStore, Record, StoreClient
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.errors import CheckpointError, DataLossError
from tidegate.readers.contract import ReadTask, SplitReader
from tidegate.sources.options import Duration
from tidegate.sources.source import Source

__all__ = ["MemoryEnumerator", "MemoryHarness", "MemoryReader", "MemorySource", "MemoryWriter"]

_SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("at", pa.timestamp("us", "UTC"))])
_BATCH_ROWS = 1_000
_BATCH_BYTES = 4 << 20


class MemorySource(Source):
    """Reads a MemoryStore.

    address: of the store.
    starting: whether a stream begins with existing rows, or after them.
    deadline: how long the store may be away before an error.
    """

    connector: ClassVar[str] = "memory"
    address: Annotated[str, Field(pattern="^[0-9a-f]+:[0-9a-f]+@.+:[0-9]+$", repr=False)]
    starting: Annotated[str, Field(pattern="^(earliest|latest)$")] = "earliest"
    deadline: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(seconds=20)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The key, the value and the event time of a row."""
        return _SCHEMA

    def enumerator(self, state: Json | None) -> SplitEnumerator:
        """Return a new enumerator.  Raises CheckpointError for the state of another store."""
        return MemoryEnumerator(self, state)

    def reader(self, state: Json | None) -> SplitReader:
        """Return a new reader."""
        del state
        return MemoryReader(self)

    def client(self) -> StoreClient:
        """Return a new client of the store, which connects with its first request."""
        return StoreClient(self.address, self.deadline.total_seconds())

    def usable_ms(self, split: SplitId, record: Record, horizon: Horizon) -> int | None:
        """Return the event time that a row counts with; None: planning leaves it out.

        Raises CorruptDataError for a row that the options refuse.
        """
        return self.usable_time_ms(
            record.row.event_time_ms,
            f"{split}: the row at {record.position}",
            horizon,
            record_timestamp_ms=record.written_ms,
        )


class MemoryEnumerator(SplitEnumerator):
    """Asks the store; knows nothing by itself."""

    def __init__(self, source: MemorySource, state: Json | None) -> None:
        self._source, self._client = source, source.client()
        self._state: Json = {"v": 1, "store": self._client.name}
        if state is not None and (state.get("v"), state.get("store")) != (1, self._state["store"]):
            raise CheckpointError("the checkpoint was written for another store, or is broken")

    def discover(self) -> Collection[SplitId]:
        """Return the splits of the store."""
        splits: list[SplitId] = self._client.ask("splits")
        return splits

    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Return the first positions, or those after existing rows."""
        at_end = first and self._source.starting == "latest"
        return {split: extent.end if at_end else extent.begin for split, extent in self.extents(splits).items()}

    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return the extents of existing splits."""
        answers = self._client.ask("extents", list(splits))
        return {split: Extent(begin, end, complete=complete) for split, (begin, end, complete) in answers.items()}

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return for each split the first row to align by."""
        return {split: next(self._heads(split, position, horizon), None) for split, position in positions.items()}

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Return for each split the greatest event time before an end."""
        times = {
            split: [h.event_time_ms for h in self._heads(split, 0, horizon) if h.position < end]
            for split, end in ends.items()
        }
        return {split: max(of_split, default=None) for split, of_split in times.items()}

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Return for each split the first row at or after an event time."""
        heads = {s: self._heads(s, 0, Horizon()) for s in splits}
        return {s: next((h for h in heads[s] if h.event_time_ms >= event_time_ms), None) for s in splits}

    def snapshot(self) -> Json | None:
        """Return the id of the store."""
        return self._state

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _heads(self, split: SplitId, position: int, horizon: Horizon) -> Iterator[Head]:
        for record in self._client.ask("records", split, position, None):
            at_ms = self._source.usable_ms(split, record, horizon)
            if at_ms is not None:
                yield Head(record.position, at_ms)


class MemoryReader(SplitReader):
    """Reads ranges, a thousand rows or 4 MB at a time."""

    def __init__(self, source: MemorySource) -> None:
        self._source, self._horizon = source, Horizon()

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every range.  Raises DataLossError for rows that were deleted."""
        self._horizon = task.horizon
        with closing(self._source.client()) as client:
            for wanted in task.ranges:
                yield from self._read(client, wanted)

    def _read(self, client: StoreClient, wanted: SplitRange) -> Iterator[pa.RecordBatch]:
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


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    times = [None if row.event_time_ms is None else row.event_time_ms * 1_000 for row in rows]
    return pa.record_batch(
        [[row.key for row in rows], [row.value for row in rows], pa.array(times, _SCHEMA.field("at").type)],
        schema=_SCHEMA,
    )


class MemoryWriter(Writer):
    """Appends to a split of a store."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self._split = store, store.create()

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        self._store.append(self._split, rows)

    def finish(self) -> None:
        """Take no more."""
        self._store.finish(self._split)

    def leave_hole(self) -> None:
        """Leave one position empty."""
        self._store.append(self._split, [None])

    def trim(self, count: int) -> None:
        """Delete the first rows."""
        self._store.trim(self._split, count)

    def remove(self) -> None:
        """Delete the split."""
        self._store.remove(self._split)


class MemoryHarness(Harness):
    """A store of its own; it can do everything.

    source_class: of its source; a mutant in tests of the kit.
    """

    event_time_column = "at"
    start_at_end: Mapping[str, str] = {"starting": "latest"}
    source_class: ClassVar[type[MemorySource]] = MemorySource

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.secrets = (self.store.key,)

    def source(self, options: Mapping[str, str]) -> Source:
        """Return a source of the store."""
        return self.source_class.from_options({"address": self.store.address, "deadline": "1 second", **options})

    def create_split(self) -> Writer:
        """Make a split of the store."""
        return MemoryWriter(self.store)

    def fault(self, kind: Fault) -> AbstractContextManager[object]:
        """Let the store fail."""
        return self.store.failing(kind)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
