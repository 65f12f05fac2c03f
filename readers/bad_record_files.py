"""Bad records as files, for every connector; a repeated task replaces its own files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

FILE_BYTES = 16 << 20  # a file is held in memory until it has this size

WriteFile: TypeAlias = Callable[[str, bytes, int], None]
"""Writes a file as a whole; takes its name, its bytes and the number of its records."""


def digest_of(identity: Any) -> str:
    """Return a digest of a JSON value, in 32 hexadecimal digits, as a part of a file's name."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


class BadRecordFiles:
    """The bad records of one range of rows, as lines of JSON.

    There is one file, or several of about 16 MiB.  The same name and the same records give the same files, so a
    repeated task replaces its own.
    """

    def __init__(self, name: str, write: WriteFile) -> None:
        self._name, self._write = name, write
        self._files = self._records = 0
        self._lines = bytearray()

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record, and write a file if it is large enough.

        Raises ConnectorError if the location cannot be written, and DeadlineError if it does not answer.
        """
        self._lines += json.dumps(record, ensure_ascii=False).encode() + b"\n"
        self._records += 1
        if len(self._lines) >= FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the records that are not written yet; raises the errors of ``add``."""
        if self._lines:
            self._write(f"{self._name}-{self._files}.json", bytes(self._lines), self._records)
            self._files += 1
            self._records = 0
            self._lines.clear()
