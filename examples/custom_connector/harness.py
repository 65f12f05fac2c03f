"""The harness of the outbox: it fills the database by sqlite3 itself, without the connector."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from outbox import OutboxSource

from tidegate.conformance import FAULTS, Abilities, Ability, Harness, Row, Writer
from tidegate.connector import Source

TABLES = """
CREATE TABLE shards (shard TEXT PRIMARY KEY, next_id INTEGER NOT NULL, complete INTEGER NOT NULL DEFAULT 0);
CREATE TABLE outbox (shard TEXT, id INTEGER, at_ms INTEGER NOT NULL, key TEXT, value TEXT, PRIMARY KEY (shard, id));
CREATE INDEX outbox_by_time ON outbox (shard, at_ms, id);
"""
NEXT_ID = "UPDATE shards SET next_id = next_id + 1 WHERE shard = ?"


class OutboxWriter(Writer):
    """Appends to a shard."""

    def __init__(self, path: Path, shard: str) -> None:
        self.path, self.shard = path, shard
        self._do("INSERT INTO shards (shard, next_id) VALUES (?, 0)", shard)

    def append(self, rows: Sequence[Row]) -> None:
        """Insert rows, each with the next id."""
        insert = "INSERT INTO outbox SELECT shard, next_id, ?, ?, ? FROM shards WHERE shard = ?"
        with self._transaction() as database:
            for row in rows:
                database.execute(insert, (row.event_time_ms, row.key, row.value, self.shard))
                database.execute(NEXT_ID, (self.shard,))

    def leave_hole(self) -> None:
        """Go to the next id."""
        self._do(NEXT_ID, self.shard)

    def finish(self) -> None:
        """Mark the shard as complete."""
        self._do("UPDATE shards SET complete = 1 WHERE shard = ?", self.shard)

    def trim(self, count: int) -> None:
        """Delete old rows."""
        self._do(
            "DELETE FROM outbox WHERE shard = ? AND cast(substr(key, instr(key, '#') + 1) AS INTEGER) < ?",
            self.shard,
            count,
        )

    def remove(self) -> None:
        """Delete the shard."""
        self._do("DELETE FROM outbox WHERE shard = ?", self.shard)
        self._do("DELETE FROM shards WHERE shard = ?", self.shard)

    def _do(self, statement: str, *parameters: object) -> None:
        with self._transaction() as database:
            database.execute(statement, parameters)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=20)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")  # no test cuts the power
            yield connection


class OutboxHarness(Harness):
    """A database of its own."""

    abilities = (
        Abilities()
        .cannot(Ability.MISSING_TIMES, "at_ms is NOT NULL")
        .cannot(FAULTS, "a file has no connection that could break, and SQLite no checksums")
    )
    event_time_column = "at"
    start_at_end: Mapping[str, str] = {"starting": "latest"}

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "outbox.db"
        self.shards = 0
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(TABLES)

    def source(self, options: Mapping[str, str]) -> Source:
        """Return a source of the database."""
        return OutboxSource.from_options({"database": str(self.path), **options})

    def create_split(self) -> Writer:
        """Make a shard."""
        self.shards += 1
        return OutboxWriter(self.path, f"shard-{self.shards}")

    def close(self) -> None:
        """Delete the database."""
        self.folder.cleanup()
