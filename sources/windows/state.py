"""The state of a bucket: the states of all its keys, read and written once a batch.

Spark receives a state call in one read, so a call of more than 8 KiB hangs the query (seen with Spark 4.3).  Larger
values are kept in parts.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

from tidegate.enumerators.planning.other_windows import check_same_windows
from tidegate.sources.windows.keys import Key

__all__ = ["Bucket", "BucketState", "KeyEntry"]

_PART = 7_000  # bytes


@dataclass(slots=True)
class KeyEntry:
    """The state of one key.

    event_timer, processing_timer: the times of its first timers, in ms.
    value: the operator's state of the key, without chunks of rows; None: there is none.
    """

    event_timer: int | None = None
    processing_timer: int | None = None
    value: bytes | None = None


@dataclass(slots=True)
class Bucket:
    """The state of some keys.

    timer: the time of Spark's timer, which calls the bucket while no rows come; None: there is none.
    watermark_ms: the watermark of the bucket's last call; None: these windows do not keep it.
    """

    timer: int | None = None
    keys: dict[Key, KeyEntry] = field(default_factory=dict)
    watermark_ms: int | None = None


class BucketState:
    """The stored state of the bucket that Spark handles now.

    description: the description of the windows, by names of their parts.  State with another description is refused.
    """

    def __init__(self, handle: StatefulProcessorHandle, description: Mapping[str, str]) -> None:
        self._handle, self._description = handle, dict(description)
        self._keys: MapState = handle.getMapState("keys", "part int", "bytes binary")
        self._chunks: MapState = handle.getMapState("rows", "key binary, chunk int, part int", "bytes binary")
        self._parts: list[bytes] = []

    def load(self, expired_ms: int | None = None) -> Bucket:
        """Return the bucket of Spark's current key.

        expired_ms: the timer that Spark deletes after its call; Spark would warn if it were gone by then.

        Raises CheckpointError if windows with another description stored it.
        """
        stored = {part: bytes(value) for (part,), (value,) in self._keys.iterator()}
        self._parts = [stored[part] for part in range(len(stored))]
        if not stored:
            return Bucket()
        description, timer, entries, watermark_ms = pickle.loads(b"".join(self._parts))  # noqa: S301 - what store() pickled
        check_same_windows(description, self._description)
        timer = None if timer == expired_ms else timer
        return Bucket(timer, {key: KeyEntry(*entry) for key, entry in entries.items()}, watermark_ms)

    def store(self, bucket: Bucket, timer: int | None, *, is_witness: bool = False) -> None:
        """Store the bucket, and have Spark call it at ``timer``.

        is_witness: the bucket has no keys, but is stored for its description.
        """
        if timer != bucket.timer:
            if bucket.timer is not None:
                self._handle.deleteTimer(bucket.timer)
            if timer is not None:
                self._handle.registerTimer(timer)
        entries = {key: (e.event_timer, e.processing_timer, e.value) for key, e in bucket.keys.items()}
        is_kept = is_witness or bool(entries) or bucket.watermark_ms is not None
        stored = (self._description, timer, entries, bucket.watermark_ms)
        parts = _parts(pickle.dumps(stored, pickle.HIGHEST_PROTOCOL) if is_kept else b"")
        for number, part in enumerate(parts):
            if number >= len(self._parts) or part != self._parts[number]:
                self._keys.updateValue((number,), (part,))
        for number in range(len(parts), len(self._parts)):
            self._keys.removeKey((number,))

    def of_key(self, key: Key, entry: KeyEntry) -> KeyStore:
        """Return the store that the operator reads and writes for one key."""
        return KeyStore(self._chunks, key, entry)


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
        for number, part in enumerate(_parts(value or b""), 1):
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


def _parts(blob: bytes) -> list[bytes]:
    return [blob[begin : begin + _PART] for begin in range(0, len(blob), _PART)]
