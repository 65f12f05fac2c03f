"""Objects that discovery left out, and why: for people, who ask later why one was not read.

What the options leave out (names, LastModified) is not noted: that can be told from them at any time.
"""

from __future__ import annotations

import json
import threading
from typing import Literal, NamedTuple, TypeAlias

from tidegate.readers.objects import S3Object

__all__ = ["LEFT_OUT", "LeftOut", "LeftOutObject", "Reason"]

LEFT_OUT = "left-out"
"""What the note is called in the ledger."""

MOST = 1000  # some 200 KB

Reason: TypeAlias = Literal["overwritten", "corrupt", "gone"]
"""overwritten: another version was found before, and ``allowOverwrites`` is false.  corrupt: it could not be cut
into chunks, and ``ignoreCorruptFiles`` is true.  gone: it was deleted, or overwritten, before it could be looked at."""


class LeftOutObject(NamedTuple):
    """One of them.

    at_ms: when it was first left out, in ms since the epoch.
    """

    found: S3Object
    reason: Reason
    at_ms: int


class LeftOut:
    """The last thousand objects that were left out, each version once.  Threads may share it."""

    def __init__(self) -> None:
        self._objects: dict[tuple[S3Object, Reason], int] = {}
        self._changed = threading.Lock()

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, found: S3Object, reason: Reason, at_ms: int) -> bool:
        """Note an object, and return whether that is news."""
        with self._changed:
            if (found, reason) in self._objects:
                return False
            self._objects[found, reason] = at_ms
            if len(self._objects) > MOST:
                del self._objects[next(iter(self._objects))]
            return True

    def objects(self) -> list[LeftOutObject]:
        """Return them, the last one last."""
        with self._changed:
            return [LeftOutObject(found, reason, at_ms) for (found, reason), at_ms in self._objects.items()]

    def to_bytes(self) -> bytes:
        """Return JSON, an object in each line: what ``restore`` takes."""
        lines = [json.dumps({**o.found._asdict(), "reason": o.reason, "at_ms": o.at_ms}) for o in self.objects()]
        return "".join(f"{line}\n" for line in lines).encode()

    def restore(self, data: bytes) -> None:
        """Take over what an earlier run noted; what cannot be read is not worth an error."""
        for line in data.splitlines():
            try:
                said = json.loads(line)
                found = S3Object(*(said[name] for name in S3Object._fields))
                self.add(found, said["reason"], said["at_ms"])
            except (ValueError, TypeError, KeyError):  # noqa: PERF203 - there are few
                continue
