"""The state of a bucket: the states of its keys in pages, and what a batch needs of all of them.

Spark receives a state call in one read, so a call of more than 8 KiB hangs the query (seen with Spark 4.3).  Larger
values are kept in parts.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

from tidegate.enumerators.planning.other_windows import check_same_windows
from tidegate.sources.windows.keys import Key, key_of, key_to_bytes
from tidegate.sources.windows.pages import KeyEntry, Pages

__all__ = ["Bucket", "BucketState"]

_PART = 7_000  # bytes
_VERSION = b"\x01"  # of every value: then come the number of its parts in two bytes, and its bytes
_PICKLED = b"\x80"
"""The first byte of the layout before pages: one pickled value with all keys of the bucket."""


@dataclass(slots=True)
class Bucket:
    """The state of some keys.

    pages: the states of the keys.
    timer: the time of Spark's timer, which calls the bucket while no rows come; None: there is none.
    watermark_ms: the watermark of the bucket's last call; None: these windows do not keep it.
    """

    pages: Pages
    timer: int | None = None
    watermark_ms: int | None = None

    def due(self, event_ms: int, processing_ms: int) -> list[Key]:
        """Return the keys with a timer at or before one of these times."""
        return [key_of(key) for key in self.pages.due(event_ms, processing_ms)]

    def entry(self, key: Key) -> KeyEntry:
        """Return the state of a key."""
        return self.pages.get(key_to_bytes(key)) or KeyEntry()

    def put(self, key: Key, entry: KeyEntry) -> None:
        """Set the state of a key; without a value, it is removed."""
        self.pages.put(key_to_bytes(key), entry)


class BucketState:
    """The stored state of the bucket that Spark handles now.

    description: the description of the windows, by names of their parts.  State with another description is refused.
    """

    def __init__(self, handle: StatefulProcessorHandle, description: Mapping[str, str]) -> None:
        self._handle, self._description = handle, dict(description)
        self._keys: MapState = handle.getMapState("keys", "part int", "bytes binary")
        self._chunks: MapState = handle.getMapState("rows", "key binary, chunk int, part int", "bytes binary")
        self._header: list[bytes] = []
        self._parts: dict[tuple[bytes, int], list[bytes]] = {}

    def load(self, expired_ms: int | None = None) -> Bucket:
        """Return the bucket of Spark's current key.

        expired_ms: the timer that Spark deletes after its call; Spark would warn if it were gone by then.

        Raises CheckpointError if windows with another description stored it.
        """
        self._parts = {}
        self._header = _read(self._part_of_header)
        if not self._header:
            return Bucket(Pages(self, 1, 0, []))
        if self._header[0][:1] == _PICKLED:
            return self._of_pickled(expired_ms)
        stored = json.loads(_joined(self._header))
        check_same_windows(stored["description"], self._description)
        timer = None if stored["timer"] == expired_ms else stored["timer"]
        pages = Pages(self, stored["pages"], stored["size"], stored["due"])
        return Bucket(pages, timer, stored["watermark"])

    def store(self, bucket: Bucket, next_call: Callable[[], int | None], *, is_witness: bool = False) -> None:
        """Store the bucket, and have Spark call it.

        next_call: returns the time of Spark's timer, when all timers are known; None: none.
        is_witness: the bucket has no keys, but is stored for its description.
        """
        pages = bucket.pages
        pages.flush()
        timer = next_call()
        if timer != bucket.timer:
            if bucket.timer is not None:
                self._handle.deleteTimer(bucket.timer)
            if timer is not None:
                self._handle.registerTimer(timer)
        stored = {
            "description": self._description,
            "timer": timer,
            "watermark": bucket.watermark_ms,
            "pages": pages.count,
            "size": pages.size,
            "due": pages.first_timers,
        }
        is_kept = is_witness or pages.size > 0 or bucket.watermark_ms is not None
        parts = _parted(json.dumps(stored).encode()) if is_kept else []
        for number in _changed(self._header, parts):
            self._keys.updateValue((number,), (parts[number],))
        for number in range(len(parts), len(self._header)):
            self._keys.removeKey((number,))

    def read(self, kind: bytes, number: int) -> bytes | None:
        """Return a page or block; None: it is empty."""
        parts = self._parts.get((kind, number))
        if parts is None:
            parts = self._parts[kind, number] = _read(lambda part: self._value((kind, number, part)))
        return _joined(parts) if parts else None

    def write(self, kind: bytes, number: int, value: bytes | None) -> None:
        """Store a page or block that was read before, or is new; None: it is empty."""
        before, parts = self._parts.get((kind, number), []), [] if value is None else _parted(value)
        for part in _changed(before, parts):
            self._chunks.updateValue((kind, number, part), (parts[part],))
        for part in range(len(parts), len(before)):
            self._chunks.removeKey((kind, number, part))
        self._parts[kind, number] = parts

    def of_key(self, key: Key, entry: KeyEntry) -> KeyStore:
        """Return the store that the operator reads and writes for one key."""
        return KeyStore(self._chunks, key, entry)

    def _part_of_header(self, part: int) -> bytes | None:
        value = self._keys.getValue((part,))
        return None if value is None else bytes(value[0])

    def _value(self, place: tuple[bytes, int, int]) -> bytes | None:
        value = self._chunks.getValue(place)
        return None if value is None else bytes(value[0])

    def _of_pickled(self, expired_ms: int | None) -> Bucket:
        """Return a bucket that was stored before there were pages; it is stored in pages."""
        while (part := self._part_of_header(len(self._header))) is not None:
            self._header.append(part)
        description, timer, entries, watermark_ms = pickle.loads(b"".join(self._header))  # noqa: S301 - our own
        check_same_windows(description, self._description)
        bucket = Bucket(Pages(self, 1, 0, []), None if timer == expired_ms else timer, watermark_ms)
        for key, entry in entries.items():
            bucket.put(key, KeyEntry(*entry))
        bucket.pages.flush()
        return bucket


class KeyStore:
    """The state of one key.  Chunks of rows may be large and are rarely read, so each is kept by itself."""

    def __init__(self, chunks: MapState, key: Key, entry: KeyEntry) -> None:
        self._chunks, self._key, self._entry = chunks, key, entry

    def read(self) -> bytes | None:
        """Return the state of the key; None: it has none."""
        return self._entry.value

    def write(self, value: bytes | None) -> None:
        """Store the state of the key, or remove it (None)."""
        self._entry.value = value

    def read_rows(self, chunk: int) -> bytes:
        """Return a chunk of rows that is stored."""
        parts: list[bytes] = []
        while (part := self._chunks.getValue(self._part(chunk, len(parts)))) is not None:
            parts.append(bytes(part[0]))
        return b"".join(parts)

    def write_rows(self, chunk: int, value: bytes | None) -> None:
        """Store a chunk of rows, or remove it (None)."""
        number = 0
        for number, part in enumerate(_cut(value or b""), 1):
            self._chunks.updateValue(self._part(chunk, number - 1), (part,))
        while self._chunks.containsKey(self._part(chunk, number)):
            self._chunks.removeKey(self._part(chunk, number))
            number += 1

    def _part(self, chunk: int, number: int) -> tuple[bytes, int, int]:
        return self._digest, chunk, number

    @cached_property
    def _digest(self) -> bytes:
        """The key in a few bytes, because each state call holds it: a key of any length leaves room for a part."""
        return blake2b(pickle.dumps(self._key, pickle.HIGHEST_PROTOCOL), digest_size=32).digest()


def _cut(blob: bytes) -> list[bytes]:
    return [blob[begin : begin + _PART] for begin in range(0, len(blob), _PART)]


def _parted(value: bytes) -> list[bytes]:
    """Return the parts of a value; the first tells their number, so that no call asks for one that is not there."""
    first, *others = _cut(value)
    return [_VERSION + (1 + len(others)).to_bytes(2, "little") + first, *others]


def _read(part_of: Callable[[int], bytes | None]) -> list[bytes]:
    first = part_of(0)
    if first is None:
        return []
    if first[:1] != _VERSION:
        return [first]
    return [first, *_others(part_of, int.from_bytes(first[1:3], "little"))]


def _others(part_of: Callable[[int], bytes | None], count: int) -> Iterator[bytes]:
    for number in range(1, count):
        yield part_of(number) or b""


def _joined(parts: list[bytes]) -> bytes:
    return b"".join([parts[0][3:], *parts[1:]])


def _changed(before: list[bytes], parts: list[bytes]) -> list[int]:
    return [number for number, part in enumerate(parts) if number >= len(before) or part != before[number]]
