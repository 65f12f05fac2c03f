"""The store of one key's state, which are bytes that a batch reads and writes once; and the key's timers."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Protocol

from tidegate.windows.window import Window


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


class Timers:
    """Timers in order of time, then of window; a timer that is registered twice fires once."""

    def __init__(self, entries: list[tuple[int, Window]]) -> None:
        self.entries = entries

    def register(self, time: int, window: Window) -> None:
        """Add a timer."""
        if not self._place(time, window)[1]:
            insort(self.entries, (time, window))

    def delete(self, time: int, window: Window) -> None:
        """Remove a timer, if it is there."""
        place, is_there = self._place(time, window)
        if is_there:
            del self.entries[place]

    def next_time(self) -> int | None:
        """Return the time of the first timer."""
        return self.entries[0][0] if self.entries else None

    def pop_due(self, time: int) -> tuple[int, Window] | None:
        """Remove and return the first timer if it is due at ``time``, or None."""
        return self.entries.pop(0) if self.entries and self.entries[0][0] <= time else None

    def _place(self, time: int, window: Window) -> tuple[int, bool]:
        place = bisect_left(self.entries, (time, window))
        return place, place < len(self.entries) and self.entries[place] == (time, window)
