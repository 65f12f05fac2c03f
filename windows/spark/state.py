"""The state of a bucket: rows in pages, and what a batch needs of all of them.

Larger values are kept in parts, and a batch writes the parts that it changes.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, StructType

from tidegate.errors import CheckpointError
from tidegate.spark_private import state_answers
from tidegate.windows.spark.buckets import check_same_windows
from tidegate.windows.spark.keys import Key
from tidegate.windows.spark.pages import Kept, Pages

# Not in DDL, and one map for all: in each task Spark parses each text, and makes encoders for each map, for 30 ms.
_PLACE = StructType().add("kind", BinaryType()).add("number", IntegerType()).add("part", IntegerType())
_VALUE = StructType().add("bytes", BinaryType())
_HEADER = (b"head", 0)
_PART = 1_000_000  # bytes
_VERSION = b"\x01"  # the first byte of every value: then come the number of its parts in two bytes, and its bytes
_PROTOCOL = 5  # of the pickled keys by which chunks are found
_LAYOUT = 6  # of all values; it goes up with every change of what is stored
_ALL_FROM = 4  # if a batch reads one of so many pages or more, reading all of them takes less


class Layout(NamedTuple):
    """The rows of the state.

    schema: the columns.  keys: those of the key.
    has_chunks: whether the operator keeps chunks of rows besides.
    """

    schema: pa.Schema
    keys: Sequence[str]
    has_chunks: bool


_Parts: TypeAlias = list[bytes]


@dataclass(slots=True)
class KeyBucket:
    """The state of some keys.

    timer: the time of Spark's timer, which calls the bucket while no rows come.
    watermark_ms: the watermark of the bucket's last call; None: these windows do not keep it.
    windows: how many windows are open.
    """

    pages: Pages
    timer: int | None = None
    watermark_ms: int | None = None
    windows: int = 0


class BucketState:
    """The stored state of the bucket that Spark handles now; state of other windows is refused."""

    def __init__(self, handle: StatefulProcessorHandle, description: Mapping[str, str], layout: Layout) -> None:
        self._handle, self._description, self._layout = handle, dict(description), layout
        self._values: MapState = handle.getMapState("keys", _PLACE, _VALUE)
        self._header: _Parts = []
        self._parts: dict[tuple[bytes, int], _Parts] = {}
        self._changes: list[Callable[[], None]] = []  # state calls that Spark gets when the bucket is stored
        self._count = 0

    def load(self, expired_ms: int | None = None) -> KeyBucket:
        """Return the bucket of Spark's current key.

        expired_ms: the timer that Spark deletes after its call; Spark would warn if it were gone by then.

        Raises CheckpointError if windows with another description stored it.
        """
        self._parts, self._changes, self._count = {}, [], 0
        self._header = self._all_parts(self._value(*_HEADER, 0), *_HEADER)
        if not self._header:
            return KeyBucket(self._pages())
        stored = _stored(self._header)
        check_same_windows(stored["description"], self._description)
        timer = None if stored["timer"] == expired_ms else stored["timer"]
        self._count = stored["pages"]
        pages = self._pages(Kept(stored["pages"], stored["size"], stored["due"], stored["streak"]))
        return KeyBucket(pages, timer, stored["watermark"], stored["windows"])

    def store(self, bucket: KeyBucket, timer: int | None, *, is_witness: bool = False) -> None:
        """Store the bucket with the pages that were written, and have Spark call it.  A witness has no keys."""
        pages = bucket.pages
        if timer != bucket.timer:
            if bucket.timer is not None:
                self._changes.append(partial(self._handle.deleteTimer, bucket.timer))
            if timer is not None:
                self._changes.append(partial(self._handle.registerTimer, timer))
        stored = {
            "layout": _LAYOUT,
            "description": self._description,
            "timer": timer,
            "watermark": bucket.watermark_ms,
            "pages": pages.count,
            "size": pages.size,
            "due": pages.first_timers,
            "streak": pages.streak,
            "windows": bucket.windows,
        }
        is_kept = is_witness or pages.size > 0 or bucket.watermark_ms is not None
        parts = _parted(json.dumps(stored).encode()) if is_kept else []
        self._change(_HEADER, self._header, parts)
        state_answers(self._handle, self._changes)

    def read(self, kind: bytes, numbers: Collection[int]) -> dict[int, bytes]:
        """Return pages or blocks by number, without those that are empty."""
        if not self._header:  # a new bucket has none, and Spark warns of a value that is not there
            return {number: _joined(parts) for number in numbers if (parts := self._parts.get((kind, number)))}
        unread = [number for number in numbers if (kind, number) not in self._parts]
        if len(unread) > 1 and len(unread) * _ALL_FROM >= self._count and not self._layout.has_chunks:
            self._read_all()
        unread = [number for number in unread if (kind, number) not in self._parts]
        rows = state_answers(self._handle, [partial(self._values.getValue, (kind, number, 0)) for number in unread])
        for number, row in zip(unread, rows, strict=True):
            self._parts[kind, number] = self._all_parts(_bytes(row), kind, number)
        return {number: _joined(parts) for number in numbers if (parts := self._parts[kind, number])}

    def write(self, kind: bytes, number: int, value: bytes | None) -> None:
        """Store a page or block that was read before, or is new; None: it is empty.  Spark gets it by ``store``."""
        parts = [] if value is None else _parted(value)
        self._change((kind, number), self._parts.get((kind, number), []), parts)
        self._parts[kind, number] = parts

    def of_key(self, key: Key, value: bytes | None) -> StoredKey:
        """Return the store that the operator reads and writes for one key."""
        return StoredKey(self._values, key, value)

    def _change(self, place: tuple[bytes, int], before: _Parts, parts: _Parts) -> None:
        for number, part in enumerate(parts):
            if number >= len(before) or part != before[number]:
                self._changes.append(partial(self._values.updateValue, (*place, number), (part,)))
        removed = range(len(parts), len(before))
        self._changes += [partial(self._values.removeKey, (*place, number)) for number in removed]

    def _pages(self, kept: Kept = Kept()) -> Pages:  # noqa: B008 - it cannot change
        return Pages(self, self._layout.schema, self._layout.keys, kept)

    def _read_all(self) -> None:
        """Read all pages and blocks: Spark sends many at once."""
        found: dict[tuple[bytes, int], dict[int, bytes]] = {}
        for (kind, number, part), (value,) in self._values.iterator():
            found.setdefault((bytes(kind), number), {})[part] = bytes(value)
        for place, parts in found.items():
            self._parts.setdefault(place, [parts[part] for part in range(len(parts))])
        for number in range(self._count):
            self._parts.setdefault((b"page", number), [])

    def _all_parts(self, first: bytes | None, kind: bytes, number: int) -> _Parts:
        """Return the parts of a value, of which the first is known; others are read."""
        if first is None or first[:1] != _VERSION:
            return [] if first is None else [first]
        count = int.from_bytes(first[1:3], "little")
        return [first, *(self._value(kind, number, part) or b"" for part in range(1, count))]

    def _value(self, kind: bytes, number: int, part: int) -> bytes | None:
        return _bytes(self._values.getValue((kind, number, part)))


class StoredKey:
    """The stored state of one key.  Chunks of rows may be large and are rarely read, so each is kept by itself."""

    def __init__(self, values: MapState, key: Key, value: bytes | None) -> None:
        self._values, self._key, self.value = values, key, value

    def read(self) -> bytes | None:
        """Return the state of the key."""
        return self.value

    def write(self, value: bytes | None) -> None:
        """Store the state of the key, or remove it (None)."""
        self.value = value

    def read_rows(self, chunk: int) -> bytes:
        """Return a chunk of rows that is stored.  Spark would warn if it were asked for a part that is not there."""
        parts: list[bytes] = []
        while not parts or (len(parts[-1]) == _PART and self._values.containsKey(self._part(chunk, len(parts)))):
            value = self._values.getValue(self._part(chunk, len(parts)))
            parts.append(b"" if value is None else bytes(value[0]))
        return b"".join(parts)

    def write_rows(self, chunk: int, value: bytes | None) -> None:
        """Store a chunk of rows, or remove it (None)."""
        number = 0
        for number, part in enumerate(_cut(value or b""), 1):
            self._values.updateValue(self._part(chunk, number - 1), (part,))
        while self._values.containsKey(self._part(chunk, number)):
            self._values.removeKey(self._part(chunk, number))
            number += 1

    def _part(self, chunk: int, number: int) -> tuple[bytes, int, int]:
        return self._digest, chunk, number

    @cached_property
    def _digest(self) -> bytes:
        """The key in a few bytes, because each state call holds it: a key of any length leaves room for a part."""
        return blake2b(pickle.dumps(self._key, _PROTOCOL), digest_size=32).digest()


def _cut(blob: bytes) -> list[bytes]:
    return [blob[begin : begin + _PART] for begin in range(0, len(blob), _PART)]


def _parted(value: bytes) -> list[bytes]:
    """Return the parts of a value; the first holds their number, so that no call asks for one that is not there."""
    first, *others = _cut(value)
    return [_VERSION + (1 + len(others)).to_bytes(2, "little") + first, *others]


def _stored(header: _Parts) -> dict[str, Any]:
    """Return the header of a bucket.  Raises CheckpointError for one of another layout."""
    stored: dict[str, Any] = json.loads(_joined(header)) if header[0][:1] == _VERSION else {}
    layout = stored.get("layout", 0)
    if layout != _LAYOUT:
        raise CheckpointError(
            f"the checkpoint holds windows of {'a newer' if layout > _LAYOUT else 'an older'} version of tidegate, "
            "which this one does not read: begin with a new checkpoint location"
        )
    return stored


def _bytes(row: Any) -> bytes | None:
    return None if row is None else bytes(row[0])


def _joined(parts: list[bytes]) -> bytes:
    return b"".join([parts[0][3:], *parts[1:]])
