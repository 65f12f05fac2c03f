"""A source for the outbox pattern: rows of a table in SQLite, read in event-time order over all shards.

A shard is a split, the id of a row is its position, and an indexed column of times is the time index.

    CREATE TABLE shards (shard TEXT PRIMARY KEY, next_id INTEGER NOT NULL, complete INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE outbox (shard TEXT, id INTEGER, at_ms INTEGER NOT NULL, key TEXT, value TEXT, PRIMARY KEY (shard, id));
    CREATE INDEX outbox_by_time ON outbox (shard, at_ms, id);

Ids of a shard rise in the order in which rows become visible, and may have holes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from tidegate.connector import (
    CheckpointError,
    ConnectorError,
    DataLossError,
    Extent,
    Head,
    Horizon,
    Json,
    Positions,
    ReadTask,
    Source,
    SplitEnumerator,
    SplitId,
    SplitRange,
    SplitReader,
    SupportsTimeIndex,
)

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("at", pa.timestamp("us", "UTC"))])
BATCH_ROWS, BATCH_BYTES = 10_000, 1 << 20


class OutboxSource(Source):
    """Reads the table ``outbox``.

    database: path of the SQLite file.
    starting: whether a stream begins with the oldest row, or after the newest.
    """

    connector: ClassVar[str] = "outbox"

    database: Path
    starting: Literal["earliest", "latest"] = "earliest"

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of every row."""
        return SCHEMA

    def enumerator(self, state: Json | None) -> SplitEnumerator:
        """Return a new enumerator.  Raises CheckpointError if an earlier run read another database."""
        if state not in (None, self.identity):
            raise CheckpointError(f"the checkpoint was not written for {self.database}; start with a new one")
        return OutboxEnumerator(self)

    def reader(self, state: Json | None) -> SplitReader:
        """Return a new reader; it needs positions only."""
        del state
        return OutboxReader(self)

    @property
    def identity(self) -> Json:
        """The database that a checkpoint belongs to: its positions mean nothing in another one."""
        return {"database": str(self.database.absolute())}


class Database:
    """Queries SQLite.  It connects with the first query, because constructors open nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def rows(self, query: str, *parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.  Raises ConnectorError if SQLite refuses, or is busy for 20 s."""
        try:
            if self._connection is None:
                uri = f"{self._path.absolute().as_uri()}?mode=ro"
                self._connection = sqlite3.connect(uri, uri=True, timeout=20, check_same_thread=False)
            yield from self._connection.execute(query, parameters)
        except sqlite3.Error as error:
            raise ConnectorError(f"cannot read {self._path}: {error}") from error

    def extents(self, shards: Collection[SplitId]) -> dict[SplitId, Extent]:
        """Return the extent of each shard that exists."""
        query = """SELECT coalesce((SELECT min(id) FROM outbox o WHERE o.shard = s.shard), next_id), next_id, complete
                   FROM shards s WHERE shard = ?"""
        rows = {shard: next(self.rows(query, shard), None) for shard in shards}
        return {s: Extent(row[0], row[1], complete=bool(row[2])) for s, row in rows.items() if row is not None}

    def close(self) -> None:
        """Close the connection; may be called twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class OutboxEnumerator(SplitEnumerator):
    """Finds shards, and the event times in them."""

    def __init__(self, source: OutboxSource) -> None:
        self._source, self._database = source, Database(source.database)

    def discover(self) -> Collection[SplitId]:
        """Return all shards."""
        return [shard for (shard,) in self._database.rows("SELECT shard FROM shards")]

    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Return the starts: a shard that comes later is read from its beginning."""
        at_end = first and self._source.starting == "latest"
        return {s: extent.end if at_end else extent.begin for s, extent in self._database.extents(splits).items()}

    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Return which ids can be read."""
        return self._database.extents(splits)

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the first row with a usable event time at or after an id."""
        query = "SELECT id, at_ms FROM outbox WHERE shard = ? AND id >= ? ORDER BY id"
        return {s: next(self._heads(query, s, position, horizon), None) for s, position in positions.items()}

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Return the greatest event time before an id."""
        query = "SELECT id, at_ms FROM outbox WHERE shard = ? AND id < ? ORDER BY at_ms DESC"
        heads = {shard: next(self._heads(query, shard, end, horizon), None) for shard, end in ends.items()}
        return {shard: None if head is None else head.event_time_ms for shard, head in heads.items()}

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the first row, by its id, at or after an event time."""
        query = "SELECT min(id), at_ms FROM outbox WHERE shard = ? AND at_ms >= ? HAVING min(id) IS NOT NULL"
        rows = {s: next(self._database.rows(query, s, event_time_ms), None) for s in positions}
        return {s: None if row is None else Head(*row) for s, row in rows.items()}

    def snapshot(self) -> Json:
        """Return the database that was read."""
        return self._source.identity

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _heads(self, query: str, shard: SplitId, limit: int, horizon: Horizon) -> Iterator[Head]:
        for number, at_ms in self._database.rows(query, shard, limit):
            counts_at = self._source.usable_time_ms(at_ms, f"{shard}: the row {number}", horizon)
            if counts_at is not None:
                yield Head(number, counts_at)


class OutboxReader(SplitReader):
    """Reads ranges of ids."""

    def __init__(self, source: OutboxSource) -> None:
        self._source = source

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every range, some thousand at a time.  Raises DataLossError for rows that are gone."""
        with closing(Database(self._source.database)) as database:
            list(database.rows("BEGIN"))  # one snapshot for the loss check and the read
            for wanted in task.ranges:
                yield from self._read(database, wanted, task.horizon)

    def _read(self, database: Database, wanted: SplitRange, horizon: Horizon) -> Iterator[pa.RecordBatch]:
        extent = database.extents([wanted.split_id]).get(wanted.split_id)
        if self._source.fail_on_data_loss and (extent is None or extent.begin > wanted.start):
            raise DataLossError(f"rows of {wanted.split_id} from {wanted.start} on are gone; see failOnDataLoss")
        query = "SELECT id, key, value, at_ms FROM outbox WHERE shard = ? AND id >= ? AND id < ? ORDER BY id"
        rows: list[tuple[int, str, str | None, int]] = []
        size = 0
        for number, key, value, at_ms in database.rows(query, wanted.split_id, wanted.start, wanted.end):
            rows.append((number, key, value, at_ms))
            size += len(value or "")
            if len(rows) == BATCH_ROWS or size >= BATCH_BYTES:
                yield self._batch(wanted.split_id, rows, horizon)
                rows, size = [], 0
        if rows:
            yield self._batch(wanted.split_id, rows, horizon)

    def _batch(self, shard: SplitId, rows: list[tuple[int, str, str | None, int]], horizon: Horizon) -> pa.RecordBatch:
        numbers, keys, values, times_ms = zip(*rows, strict=True)
        self._check_times(shard, numbers, times_ms, horizon)
        columns = [keys, values, [at_ms * 1_000 for at_ms in times_ms]]
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )

    def _check_times(self, shard: SplitId, numbers: Sequence[int], times_ms: Sequence[int], horizon: Horizon) -> None:
        """Raise CorruptDataError for the first row that the options refuse."""
        refused = self._source.event_time_policy.judge(np.array(times_ms, np.int64), None, horizon).refused
        if refused is not None:
            raise refused.error(f"{shard}: the row {numbers[refused.row]}")


if TYPE_CHECKING:
    # mypy tells here which methods the planner lacks to align by event times.
    _ALIGNED: type[SupportsTimeIndex] = OutboxEnumerator
