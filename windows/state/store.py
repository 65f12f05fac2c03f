"""The store of one key's state: bytes by name, read and written once in each batch."""

from __future__ import annotations

from typing import Protocol

__all__ = ["KeyStore", "MemoryKeyStore"]


class KeyStore(Protocol):
    """The stored state of one key: on Spark, variables of transformWithState.

    The name of a key's index is ``""``; it holds timers and merged windows.  Each pane has a name of its
    own, and so has each chunk of rows.  One batch reads and writes a name at most once.
    """

    def read(self, name: str) -> bytes | None:
        """Return what is stored under a name; None: nothing is."""

    def write(self, name: str, value: bytes | None) -> None:
        """Store a value under a name, or remove it (None)."""


class MemoryKeyStore:
    """A key's state in a dictionary."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Return what is stored under a name; None: nothing is."""
        return self.values.get(name)

    def write(self, name: str, value: bytes | None) -> None:
        """Store a value under a name, or remove it (None)."""
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
