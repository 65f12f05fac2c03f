"""Records which objects discovery left out, and why, for users who ask why an object was not read.

Objects that options leave out (by name or LastModified) are not recorded: the options show that at any time.
"""

from __future__ import annotations

import json
import threading
from typing import Literal, NamedTuple, TypeAlias

from tidegate.readers.objects.values import S3Object

LEFT_OUT = "left-out"
"""The name of the note in the ledger."""

MOST = 1000  # some 200 KB

Reason: TypeAlias = Literal["overwritten", "corrupt", "gone"]
"""The reasons why an object is left out.

overwritten: another version was found before, and ``allowOverwrites`` is false.
corrupt: the object could not be cut into chunks, and ``ignoreCorruptFiles`` is true.
gone: the object was deleted, or overwritten, before it was surveyed.
"""


class LeftOutObject(NamedTuple):
    """An object that was left out, and when it first was, in ms since the epoch."""

    obj: S3Object
    reason: Reason
    at_ms: int


class LeftOut:
    """The last thousand objects that were left out, each version once.  Thread-safe.

    The attribute ``count`` is the number recorded by this run.  Of each, a hash of some 70 bytes stays in memory
    until the run ends.  Without it, every round would record an overwritten object anew.
    """

    def __init__(self) -> None:
        self._objects: dict[tuple[S3Object, Reason], int] = {}
        self._known: set[int] = set()  # hashes
        self._changed = threading.Lock()
        self.count = 0

    def add(self, obj: S3Object, reason: Reason, at_ms: int) -> bool:
        """Record an object, and return whether that is news: every round meets each overwritten object."""
        with self._changed:
            noted = (obj, reason)
            if hash(noted) in self._known:
                return False
            self._known.add(hash(noted))
            self._objects[noted] = at_ms
            if len(self._objects) > MOST:
                del self._objects[next(iter(self._objects))]
            self.count += 1
            return True

    def objects(self) -> list[LeftOutObject]:
        """Return the objects, the last one last."""
        with self._changed:
            return [LeftOutObject(obj, reason, at_ms) for (obj, reason), at_ms in self._objects.items()]

    def to_bytes(self) -> bytes:
        """Return lines of JSON, one for each object: ``restore`` takes them."""
        lines = [json.dumps({**o.obj._asdict(), "reason": o.reason, "at_ms": o.at_ms}) for o in self.objects()]
        return "".join(f"{line}\n" for line in lines).encode()

    def restore(self, data: bytes) -> None:
        """Take over the notes of an earlier run; damaged notes are silently dropped."""
        for line in data.splitlines():
            try:
                noted = json.loads(line)
                obj = S3Object(*(noted[name] for name in S3Object._fields))
                self._objects[obj, noted["reason"]] = int(noted["at_ms"])
                self._known.add(hash((obj, noted["reason"])))
            except (ValueError, TypeError, KeyError):  # noqa: PERF203 - there are few
                continue
