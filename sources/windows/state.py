"""The state of a bucket: that of all its keys, read and written once a batch.

Spark receives a state call in one read, so a call of more than 8 KiB hangs the query (seen with Spark 4.3).  Whatever
is larger is kept in parts.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

from tidegate.enumerators.planning.other_windows import check_same_windows

__all__ = ["Bucket", "BucketState", "Key", "KeyEntry"]

Key: TypeAlias = tuple[Any, ...]
_PART = 7_000  # bytes


@dataclass(slots=True)
class KeyEntry:
    """The state of one key.

    event_timer, processing_timer: its first ones, in ms.
    value: what the operator keeps of the key, but for chunks of rows; None: nothing.
    """

    event_timer: int | None = None
    processing_timer: int | None = None
    value: bytes | None = None


@dataclass(slots=True)
class Bucket:
    """The state of some keys.

    timer: Spark's, by which the bucket is called while no rows come; None: there is none.
    """

    timer: int | None = None
    keys: dict[Key, KeyEntry] = field(default_factory=dict)


class BucketState:
    """The stored state of the bucket that Spark is at.

    description: of the windows, by names of their parts.  State of windows with another one is refused.
    """

    def __init__(self, handle: StatefulProcessorHandle, description: Mapping[str, str]) -> None:
        self._handle, self._description = handle, dict(description)
        self._keys: MapState = handle.getMapState("keys", "part int", "bytes binary")
        self._chunks: MapState = handle.getMapState("rows", "key binary, chunk int, part int", "bytes binary")
        self._parts: list[bytes] = []

    def load(self) -> Bucket:
        """Return the bucket of Spark's current key.

        Raises CheckpointError if windows with another description stored it.
        """
        stored = {part: bytes(value) for (part,), (value,) in self._keys.iterator()}
        self._parts = [stored[part] for part in range(len(stored))]
        if not stored:
            return Bucket()
        description, timer, entries = pickle.loads(b"".join(self._parts))  # noqa: S301 - what store() pickled
        check_same_windows(description, self._description)
        return Bucket(timer, {key: KeyEntry(*entry) for key, entry in entries.items()})

    def store(self, bucket: Bucket, timer: int | None, *, is_witness: bool = False) -> None:
        """Store the bucket, and have Spark call it at ``timer``.

        is_witness: it has no keys and is stored nevertheless, for its description.
        """
        if timer != bucket.timer:
            if bucket.timer is not None:
                self._handle.deleteTimer(bucket.timer)
            if timer is not None:
                self._handle.registerTimer(timer)
        entries = {key: (e.event_timer, e.processing_timer, e.value) for key, e in bucket.keys.items()}
        is_kept = is_witness or bool(entries)
        blob = pickle.dumps((self._description, timer, entries), pickle.HIGHEST_PROTOCOL) if is_kept else b""
        parts = _parts(blob)
        for number, part in enumerate(parts):
            if number >= len(self._parts) or part != self._parts[number]:
                self._keys.updateValue((number,), (part,))
        for number in range(len(parts), len(self._parts)):
            self._keys.removeKey((number,))

    def of_key(self, key: Key, entry: KeyEntry) -> KeyStore:
        """Return what the operator reads and writes of one key."""
        return KeyStore(self._chunks, key, entry)


class KeyStore:
    """The state of one key.  Its chunks of rows may be large and are rarely read, so each is kept by itself."""

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
        for number, part in enumerate(_parts(value or b""), 1):
            self._chunks.updateValue(self._part(chunk, number - 1), (part,))
        while self._chunks.containsKey(self._part(chunk, number)):
            self._chunks.removeKey(self._part(chunk, number))
            number += 1

    def _part(self, chunk: int, number: int) -> tuple[bytes, int, int]:
        return pickle.dumps(self._key, pickle.HIGHEST_PROTOCOL), chunk, number


def _parts(blob: bytes) -> list[bytes]:
    return [blob[begin : begin + _PART] for begin in range(0, len(blob), _PART)]
