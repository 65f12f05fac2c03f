"""Which objects were discovered before: what makes a round of discovery find only what is new.

Objects are remembered as digests, within a look-back window over LastModified.  What is older than
its *horizon* is known by its age alone, or memory would grow for ever.  The window is there because an
object may appear late with an early LastModified: that of a multipart upload is its start.

They stand in sorted runs (a log-structured merge tree): what a round adds is a run of its own, runs of a like
size become one, and each is stored as a file that never changes, so that a round that finds little writes little.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tidegate.enumerators.s3.state.snapshot import SeenSnapshot
from tidegate.errors import CheckpointError
from tidegate.readers.objects.values import S3Object

__all__ = ["SeenObjects", "SeenRun"]

MAGIC = b"tidegate seen 2\n"
HEADER = struct.Struct("<q")
PREFIX = "seen-"
CHECKSUM_DIGITS = 16
KEY_BYTES = 16  # two keys of one digest would be one object: with 128 bits that never happens
VERSION_BYTES = 8
GROWTH = 4  # so many times as long as the next run, each has to be; a million objects are at most ten runs
KINDS = ("<u8", "<u8", "<u8", "<i8")


class SeenRun:
    """Remembered objects, each key once, in the order of their digests; immutable.

    high, low: the digest of the key.  version: a digest of ETag and size.
    """

    def __init__(self, high: Any, low: Any, version: Any, modified_ms: Any) -> None:
        self.high, self.low, self.version, self.modified_ms = high, low, version, modified_ms

    def __len__(self) -> int:
        return len(self.high)

    @cached_property
    def name(self) -> str:
        """Names the content for ever: ``seen-0123456789abcdef``."""
        return PREFIX + _checksum(self._content())

    def to_bytes(self) -> bytes:
        """Return what ``parse`` takes."""
        return b"".join(self._content())

    @classmethod
    def parse(cls, name: str, data: bytes) -> SeenRun:
        """Return the run of that name.  Raises CheckpointError when the data is not what the name says."""
        if not data.startswith(MAGIC):
            raise CheckpointError(f"the memory of discovered objects is of another version of tidegate: {data[:16]!r}")
        if name != PREFIX + _checksum([data]):
            raise CheckpointError(
                f"the memory of discovered objects {name!r} is damaged: its {len(data)} bytes fail the checksum"
            )
        (count,) = HEADER.unpack_from(data, len(MAGIC))
        first = len(MAGIC) + HEADER.size
        return cls(*(np.frombuffer(data, kind, count, first + 8 * count * i) for i, kind in enumerate(KINDS)))

    def where(self, chosen: Any) -> SeenRun:
        """Return some of the objects."""
        return SeenRun(*(array[chosen] for array in self._arrays))

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

    @property
    def _arrays(self) -> tuple[Any, Any, Any, Any]:
        return self.high, self.low, self.version, self.modified_ms

    def _content(self) -> list[Any]:
        arrays = zip(self._arrays, KINDS, strict=True)
        return [MAGIC, HEADER.pack(len(self)), *(np.ascontiguousarray(array, kind).data for array, kind in arrays)]


class SeenObjects:
    """Remembers objects by key and version; about 32 bytes each.

    max_age_ms: how far before the newest LastModified of the rounds that have ended an object may lie
        and still count as new (Spark: maxFileAge); None: any age, and nothing is ever forgotten.

    A version is what ETag and size say, and LastModified where the endpoint gives no ETag.  All of a
    query's first round is new, whatever its age.  An object that was forgotten and is then overwritten
    is new.  Not for several threads at once.
    """

    def __init__(self, max_age_ms: int | None) -> None:
        self.max_age_ms = max_age_ms
        self._newest_ms: int | None = None
        self._horizon_ms: int | None = None
        # What stands in a later one counts.  They may hold objects behind the horizon, which count as forgotten.
        self._runs: list[SeenRun] = []

    @property
    def horizon_ms(self) -> int | None:
        """Older objects are not new; None: all count.  It never goes back."""
        return self._horizon_ms

    @property
    def runs(self) -> Sequence[SeenRun]:
        """What has to be stored under its name for ``restored``: at most some ten, most of which stay as they are."""
        return self._runs

    def __len__(self) -> int:
        """Return how many objects are remembered."""
        return sum(map(len, self._without_forgotten()))

    def remembers(self, key: str) -> bool:
        """Tell whether some version of an object is remembered."""
        asked = _digests([S3Object(key, 0, "", 0)])
        return any(run.find(asked.high, asked.low)[0] >= 0 for run in self._runs)

    def sift(self, page: Sequence[S3Object]) -> tuple[list[S3Object], list[S3Object]]:
        """Return the objects of a page that are new, and those that are known in another version.

        Of a key that stands in the page twice, the last one counts.  Nothing is remembered yet.
        """
        horizon_ms = np.iinfo(np.int64).min if self._horizon_ms is None else self._horizon_ms
        candidates = [*{obj.key: obj for obj in page if obj.modified_ms >= horizon_ms}.values()]
        asked = _digests(candidates)
        decided, known, other = (np.zeros(len(candidates), bool) for _ in range(3))
        for run in reversed(self._runs):
            at = run.find(asked.high, asked.low)
            here = ~decided & (at >= 0)
            decided |= here
            here &= run.modified_ms[at] >= horizon_ms
            known |= here
            other |= here & (run.version[at] != asked.version)
        return [candidates[i] for i in np.flatnonzero(~known)], [candidates[i] for i in np.flatnonzero(other)]

    def add(self, objects: Sequence[S3Object]) -> None:
        """Remember objects, each in place of another version of it.  Of a key that comes twice, the last one counts."""
        if not objects:
            return
        newest_ms = max(obj.modified_ms for obj in objects)
        self._newest_ms = newest_ms if self._newest_ms is None else max(self._newest_ms, newest_ms)
        self._runs.append(_merged([_digests(objects)]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= GROWTH * len(self._runs[-1]):
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
        behind = sum(int(np.count_nonzero(run.modified_ms < horizon_ms)) for run in self._runs)
        # Not each time, or each time all would be written anew.
        if 2 * behind > sum(map(len, self._runs)):
            self._runs = self._without_forgotten()

    def snapshot(self) -> SeenSnapshot:
        """Return the names of the runs, and the times: what ``restored`` takes."""
        return SeenSnapshot([run.name for run in self._runs], self._horizon_ms, self._newest_ms)

    @classmethod
    def restored(cls, snapshot: SeenSnapshot, read: Callable[[str], bytes], max_age_ms: int | None) -> SeenObjects:
        """Return the memory of a snapshot.

        read: returns what is stored under a name.
        max_age_ms: of now; a horizon that was passed stays passed.

        Raises CheckpointError when the data is damaged, or of another version of tidegate.
        """
        seen = cls(max_age_ms)
        seen._horizon_ms, seen._newest_ms = snapshot.horizon_ms, snapshot.newest_ms
        seen._runs = [SeenRun.parse(name, read(name)) for name in snapshot.runs]
        return seen

    def copy(self) -> SeenObjects:
        """Return a memory of its own with the same content, at no cost: nothing is changed in place."""
        twin = SeenObjects(self.max_age_ms)
        twin._newest_ms, twin._horizon_ms, twin._runs = self._newest_ms, self._horizon_ms, [*self._runs]
        return twin

    def _without_forgotten(self) -> list[SeenRun]:
        """Return one run of what is remembered, none if that is nothing."""
        # Of some runs alone, what is forgotten could hide an older version in the others no more.
        whole = _merged(self._runs) if self._runs else _digests([])
        kept = whole.where(whole.modified_ms >= self._horizon_ms) if self._horizon_ms is not None else whole
        return [kept] if len(kept) else []


def _digests(objects: Sequence[S3Object]) -> SeenRun:
    """Return the objects as digests, in their own order."""
    keys = b"".join([hashlib.blake2b(obj.key.encode(), digest_size=KEY_BYTES).digest() for obj in objects])
    versions = b"".join([_version(obj) for obj in objects])
    halves = np.frombuffer(keys, "<u8").reshape(-1, 2)
    modified_ms = np.array([obj.modified_ms for obj in objects], "<i8")
    return SeenRun(halves[:, 0], halves[:, 1], np.frombuffer(versions, "<u8"), modified_ms)


def _version(obj: S3Object) -> bytes:
    text = f"{obj.size} {obj.etag or obj.modified_ms}"
    return hashlib.blake2b(text.encode(), digest_size=VERSION_BYTES).digest()


def _merged(runs: Sequence[SeenRun]) -> SeenRun:
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
    return SeenRun(high, low, version, modified_ms)


def _checksum(content: Sequence[Any]) -> str:
    digest = hashlib.blake2b(digest_size=CHECKSUM_DIGITS // 2)
    for part in content:
        digest.update(part)
    return digest.hexdigest()
