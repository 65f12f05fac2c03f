"""Which objects were discovered before: what makes a round of discovery find only what is new.

Objects are remembered as digests, within a look-back window over LastModified.  What is older than
its *horizon* is known by its age alone, or memory would grow for ever.  The window is there because an
object may appear late with an early LastModified: that of a multipart upload is its start.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.errors import CheckpointError
from tidegate.readers.objects import S3Object

__all__ = ["SeenObjects"]

MAGIC = b"tidegate seen 1\n"
HEADER = struct.Struct("<7q")
CHECKSUM_BYTES = 16
KEY_BYTES = 16  # two keys of one digest would be one object: with 128 bits that never happens
VERSION_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Run:
    """Remembered objects, each key once, in the order of their digests.

    high, low: the digest of the key.  version: a digest of ETag and size.
    """

    high: Any
    low: Any
    version: Any
    modified_ms: Any

    def __len__(self) -> int:
        return len(self.high)

    @property
    def arrays(self) -> tuple[Any, Any, Any, Any]:
        return self.high, self.low, self.version, self.modified_ms

    def where(self, chosen: Any) -> _Run:
        return _Run(*(array[chosen] for array in self.arrays))

    def find(self, high: Any, low: Any) -> Any:
        """Return for each digest where it stands, -1 for one that does not."""
        at = np.searchsorted(self.high, high)
        while True:
            near = np.minimum(at, len(self) - 1)
            same_half = (at < len(self)) & (self.high[near] == high)
            found = same_half & (self.low[near] == low)
            onward = same_half & ~found
            if not onward.any():
                return np.where(found, near, -1)
            at = at + onward


class SeenObjects:
    """Remembers objects by key and version; about 32 bytes each.

    max_age_ms: may be set anew; how far before the newest LastModified of the rounds that have ended an object may lie
        and still count as new (Spark: maxFileAge); None: any age, and nothing is ever forgotten.

    A version is what ETag and size say, and LastModified where the endpoint gives no ETag.  All of a
    query's first round is new, whatever its age.  An object that was forgotten and is then overwritten
    is new.  Not for several threads at once.
    """

    def __init__(self, max_age_ms: int | None) -> None:
        self.max_age_ms = max_age_ms
        self._newest_ms: int | None = None
        self._horizon_ms: int | None = None
        # None is empty, and each is more than twice as long as the next one; what stands in a later one counts.
        self._runs: list[_Run] = []

    @property
    def horizon_ms(self) -> int | None:
        """Older objects are not new; None: all count.  It never goes back."""
        return self._horizon_ms

    def __len__(self) -> int:
        """Return how many objects are remembered."""
        return len(self._whole())

    def sift(self, page: Sequence[S3Object]) -> tuple[list[S3Object], list[S3Object]]:
        """Return the objects of a page that are new, and those that are known in another version.

        Of a key that stands in the page twice, the last one counts.  Nothing is remembered yet.
        """
        by_key = {
            found.key: found for found in page if self._horizon_ms is None or found.modified_ms >= self._horizon_ms
        }
        candidates = list(by_key.values())
        asked = _digests(candidates)
        unknown = np.ones(len(candidates), bool)
        other = np.zeros(len(candidates), bool)
        for run in reversed(self._runs):
            at = run.find(asked.high, asked.low)
            here = unknown & (at >= 0)
            other |= here & (run.version[at] != asked.version)
            unknown &= ~here
        return [candidates[i] for i in np.flatnonzero(unknown)], [candidates[i] for i in np.flatnonzero(other)]

    def add(self, objects: Sequence[S3Object]) -> None:
        """Remember objects, each in place of another version of it.  Of a key that comes twice, the last one counts."""
        if not objects:
            return
        newest_ms = max(found.modified_ms for found in objects)
        self._newest_ms = newest_ms if self._newest_ms is None else max(self._newest_ms, newest_ms)
        self._runs.append(_merged([_digests(objects)]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs[-2:] = [_merged(self._runs[-2:])]

    def end_round(self, at_ms: int) -> None:
        """Advance the horizon, and forget what is behind it.  Called when a listing was seen to its end.

        at_ms: when the round ended, in ms since the epoch.  A LastModified in the future does not
            advance the horizon, or one wrong clock would make all that is to come too old.
        """
        if self.max_age_ms is None or self._newest_ms is None:
            return
        horizon_ms = min(self._newest_ms, at_ms) - self.max_age_ms
        if self._horizon_ms is not None and horizon_ms <= self._horizon_ms:
            return
        self._horizon_ms = horizon_ms
        run = self._whole()
        kept = run.modified_ms >= horizon_ms
        if not kept.all():
            self._runs = [run.where(kept)] if kept.any() else []

    def to_bytes(self) -> bytes:
        """Return what ``from_bytes`` takes; equal for equal memories, however they came about."""
        run = self._whole()
        times = (self.max_age_ms, self._horizon_ms, self._newest_ms)
        header = HEADER.pack(len(run), *(field for time_ms in times for field in (time_ms is not None, time_ms or 0)))
        content: list[Any] = [header, *(np.ascontiguousarray(array).data for array in run.arrays)]
        return b"".join([MAGIC, _checksum(content), *content])

    @classmethod
    def from_bytes(cls, data: bytes) -> SeenObjects:
        """Return what was remembered, with the ``max_age_ms`` of then.

        Raises CheckpointError when the data is damaged, or of another version of tidegate.
        """
        content = memoryview(data)[len(MAGIC) + CHECKSUM_BYTES :]
        if not data.startswith(MAGIC):
            raise CheckpointError(f"the memory of discovered objects is of another version of tidegate: {data[:16]!r}")
        if data[len(MAGIC) : len(MAGIC) + CHECKSUM_BYTES] != _checksum([content]):
            raise CheckpointError(
                f"the memory of discovered objects is damaged: its {len(data)} bytes fail the checksum"
            )
        count, *fields = HEADER.unpack_from(content)
        times = [time_ms if is_given else None for is_given, time_ms in zip(fields[::2], fields[1::2], strict=True)]
        seen = cls(times[0])
        seen._horizon_ms, seen._newest_ms = times[1:]
        kinds = ("<u8", "<u8", "<u8", "<i8")
        arrays = [np.frombuffer(content, kind, count, HEADER.size + 8 * count * i) for i, kind in enumerate(kinds)]
        seen._runs = [_Run(*arrays)] if count else []
        return seen

    @staticmethod
    def digest(data: bytes) -> str:
        """Return 32 hexadecimal digits that tell one answer of ``to_bytes`` from every other."""
        return data[len(MAGIC) : len(MAGIC) + CHECKSUM_BYTES].hex()

    def copy(self) -> SeenObjects:
        """Return a memory of its own with the same content, at no cost: nothing is changed in place."""
        twin = SeenObjects(self.max_age_ms)
        twin._newest_ms, twin._horizon_ms, twin._runs = self._newest_ms, self._horizon_ms, [*self._runs]
        return twin

    def _whole(self) -> _Run:
        """Return everything as one run, and keep it so."""
        if len(self._runs) > 1:
            self._runs = [_merged(self._runs)]
        return self._runs[0] if self._runs else _digests([])


def _digests(objects: Sequence[S3Object]) -> _Run:
    """Return the objects as digests, in their own order."""
    keys = b"".join([hashlib.blake2b(found.key.encode(), digest_size=KEY_BYTES).digest() for found in objects])
    versions = b"".join([_version(found) for found in objects])
    halves = np.frombuffer(keys, "<u8").reshape(-1, 2)
    modified_ms = np.array([found.modified_ms for found in objects], "<i8")
    return _Run(halves[:, 0], halves[:, 1], np.frombuffer(versions, "<u8"), modified_ms)


def _version(found: S3Object) -> bytes:
    text = f"{found.size} {found.etag or found.modified_ms}"
    return hashlib.blake2b(text.encode(), digest_size=VERSION_BYTES).digest()


def _merged(runs: Sequence[_Run]) -> _Run:
    """Return the objects of all runs in order, each key as the last run has it."""
    high, low = np.concatenate([run.high for run in runs]), np.concatenate([run.low for run in runs])
    # Stable, so that what came last stands last among equal keys.
    order = np.lexsort((low, high))
    high, low = high[order], low[order]
    last = np.ones(len(order), bool)
    last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    if not last.all():
        high, low, order = high[last], low[last], order[last]
    version = np.concatenate([run.version for run in runs])[order]
    modified_ms = np.concatenate([run.modified_ms for run in runs])[order]
    return _Run(high, low, version, modified_ms)


def _checksum(content: Iterable[bytes | memoryview]) -> bytes:
    digest = hashlib.blake2b(digest_size=CHECKSUM_BYTES)
    for part in content:
        digest.update(part)
    return digest.digest()
