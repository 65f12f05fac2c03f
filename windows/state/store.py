"""The store of one key's state: bytes, read and written once in each batch."""

from __future__ import annotations

from typing import Protocol


class KeyStore(Protocol):
    """The stored state of one key: on Spark, variables of transformWithState.

    The state is one value, except for chunks of rows, which may be large and are rarely read.  Each chunk has a
    number.  A batch reads and writes each value at most once.
    """

    def read(self) -> bytes | None:
        """Return the state of the key."""

    def write(self, value: bytes | None) -> None:
        """Store the state of the key, or remove it (None)."""

    def read_rows(self, chunk: int) -> bytes:
        """Return a chunk of rows that is stored."""

    def write_rows(self, chunk: int, value: bytes | None) -> None:
        """Store a chunk of rows, or remove it (None)."""


class MemoryKeyStore:
    """A key's state in memory.

    Attributes:
    value: the state without rows.  rows: chunks of rows by number.

    """

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.rows: dict[int, bytes] = {}

    def read(self) -> bytes | None:
        """Return the state of the key."""
        return self.value

    def write(self, value: bytes | None) -> None:
        """Store the state of the key, or remove it (None)."""
        self.value = value

    def read_rows(self, chunk: int) -> bytes:
        """Return a chunk of rows that is stored."""
        return self.rows[chunk]

    def write_rows(self, chunk: int, value: bytes | None) -> None:
        """Store a chunk of rows, or remove it (None)."""
        if value is None:
            del self.rows[chunk]
        else:
            self.rows[chunk] = value
