"""Remembers the objects that were discovered before, so that a discovery round finds only new ones.

Objects are remembered as digests, within a look-back window over LastModified.  Objects older than the *horizon* are
known by their age alone, or memory would grow forever.  The window is needed because an object may appear late with an
early LastModified: that of a multipart upload is its start.

Digests are in sorted runs (a log-structured merge tree).  Each round adds a run, and runs of similar size are merged.
Each run is a file that never changes, so a round with few objects writes little.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from tidegate.errors import CheckpointError
from tidegate.readers.objects.values import S3Object

MAGIC = b"tidegate seen 2\n"
HEADER = struct.Struct("<q")
PREFIX = "seen-"
CHECKSUM_DIGITS = 16
KEY_BYTES = 16  # two keys with one digest would be one object: with 128 bits that never happens
VERSION_BYTES = 8
GROWTH = 4  # the least ratio between the lengths of a run and the next one; a million objects are at most ten runs
KINDS = ("<u8", "<u8", "<u8", "<i8")


class SeenSnapshot(TypedDict):
    """A snapshot of ``SeenObjects``.

    horizon: in ms; objects older than that are not new.
    newest: the greatest LastModified that was seen, in ms.
    """

    runs: list[str]
    horizon: int | None
    newest: int | None


class SeenRun:
    """Remembered objects, each key once, in the order of its digest, with a digest of ETag and size; immutable."""

    def __init__(self, high: Any, low: Any, version: Any, modified_ms: Any) -> None:
        self.high, self.low, self.version, self.modified_ms = high, low, version, modified_ms

    def __len__(self) -> int:
        return len(self.high)

    @cached_property
    def name(self) -> str:
        """The name of the content, forever: ``seen-0123456789abcdef``."""
        return PREFIX + _checksum(self._content())

    def to_bytes(self) -> bytes:
        """Return the bytes that ``parse`` takes."""
        return b"".join(self._content())

    @classmethod
    def parse(cls, name: str, data: bytes) -> SeenRun:
        """Return the run of that name.  Raises CheckpointError if the data does not match the name."""
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
        """Return the selected objects."""
        return SeenRun(*(array[chosen] for array in self._arrays))

    def find(self, high: Any, low: Any) -> Any:
        """Return the index of each digest, -1 for a missing one."""
        at = np.searchsorted(self.high, high)
        while True:
            near = np.minimum(at, len(self) - 1)
            same_half = (at < len(self)) & (self.high[near] == high)
            equal = same_half & (self.low[near] == low)
            onward = same_half & ~equal
            if not onward.any():
                return np.where(equal, near, -1)
            at = at + onward

    @property
    def _arrays(self) -> tuple[Any, Any, Any, Any]:
        return self.high, self.low, self.version, self.modified_ms

    def _content(self) -> list[Any]:
        arrays = zip(self._arrays, KINDS, strict=True)
        return [MAGIC, HEADER.pack(len(self)), *(np.ascontiguousarray(array, kind).data for array, kind in arrays)]


class SeenObjects:
    """Remembers objects by key and version; about 32 bytes each.

    max_age_ms: the greatest age of an object that still counts as new (Spark: maxFileAge).  The age is measured from
        the newest LastModified of the rounds that have ended.  None: any age, and nothing is ever forgotten.

    A version is ETag and size, and LastModified if the endpoint gives no ETag.  All objects of a query's first round
    are new, whatever their age.  An object that was forgotten and is then overwritten is new.  Not thread-safe.
    """

    def __init__(self, max_age_ms: int | None) -> None:
        self.max_age_ms = max_age_ms
        self._newest_ms: int | None = None
        self._horizon_ms: int | None = None
        # A later run overrides earlier ones.  Runs may hold objects before the horizon, which count as forgotten.
        self._runs: list[SeenRun] = []

    @property
    def newest_ms(self) -> int | None:
        """When the newest object was written that was ever remembered; None: none was."""
        return self._newest_ms

    @property
    def horizon_ms(self) -> int | None:
        """Objects older than this are not new; None: all count.  It never goes back."""
        return self._horizon_ms

    @property
    def runs(self) -> Sequence[SeenRun]:
        """The runs to store under their names for ``restored``: about ten at most, and most of them do not change."""
        return self._runs

    def __len__(self) -> int:
        """Return the number of remembered objects."""
        return sum(map(len, self._without_forgotten()))

    def remembers(self, key: str) -> bool:
        """Return whether some version of an object is remembered."""
        digest = _digests([S3Object(key, 0, "", 0)])
        return any(run.find(digest.high, digest.low)[0] >= 0 for run in self._runs)

    def sift(self, page: Sequence[S3Object]) -> tuple[list[S3Object], list[S3Object]]:
        """Return the objects of a page that are new, and those that are known in another version.

        If a key is in the page twice, the last one counts.  Nothing is remembered yet.
        """
        horizon_ms = np.iinfo(np.int64).min if self._horizon_ms is None else self._horizon_ms
        candidates = [*{obj.key: obj for obj in page if obj.modified_ms >= horizon_ms}.values()]
        digests = _digests(candidates)
        decided, known, other = (np.zeros(len(candidates), bool) for _ in range(3))
        for run in reversed(self._runs):
            at = run.find(digests.high, digests.low)
            here = ~decided & (at >= 0)
            decided |= here
            here &= run.modified_ms[at] >= horizon_ms
            known |= here
            other |= here & (run.version[at] != digests.version)
        return [candidates[i] for i in np.flatnonzero(~known)], [candidates[i] for i in np.flatnonzero(other)]

    def add(self, objects: Sequence[S3Object]) -> None:
        """Remember objects, each in place of another version of it.  If a key comes twice, the last one counts."""
        if not objects:
            return
        newest_ms = max(obj.modified_ms for obj in objects)
        self._newest_ms = newest_ms if self._newest_ms is None else max(self._newest_ms, newest_ms)
        self._runs.append(_merged([_digests(objects)]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= GROWTH * len(self._runs[-1]):
            self._runs[-2:] = [_merged(self._runs[-2:])]

    def end_round(self, at_ms: int) -> None:
        """Advance the horizon, and forget objects before it.  Called at the end of a listing.

        at_ms: when the round ended, in ms since the epoch.  A LastModified in the future does not advance the horizon,
            or one wrong clock would make all later objects too old.
        """
        if self.max_age_ms is None or self._newest_ms is None:
            return
        horizon_ms = min(self._newest_ms, at_ms) - self.max_age_ms
        if self._horizon_ms is not None and horizon_ms <= self._horizon_ms:
            return
        self._horizon_ms = horizon_ms
        behind = sum(int(np.count_nonzero(run.modified_ms < horizon_ms)) for run in self._runs)
        # Not each time, or all would be rewritten each time.
        if 2 * behind > sum(map(len, self._runs)):
            self._runs = self._without_forgotten()

    def snapshot(self) -> SeenSnapshot:
        """Return the names of the runs, and the times: what ``restored`` takes."""
        return {"runs": [run.name for run in self._runs], "horizon": self._horizon_ms, "newest": self._newest_ms}

    @classmethod
    def restored(cls, snapshot: SeenSnapshot, read: Callable[[str], bytes], max_age_ms: int | None) -> SeenObjects:
        """Return the memory of a snapshot.

        read: returns the data that is stored under a name.
        max_age_ms: the present option; the horizon does not go back with it.

        Raises CheckpointError when the data is damaged, or of another version of tidegate.
        """
        seen = cls(max_age_ms)
        seen._horizon_ms, seen._newest_ms = snapshot["horizon"], snapshot["newest"]
        seen._runs = [SeenRun.parse(name, read(name)) for name in snapshot["runs"]]
        return seen

    def copy(self) -> SeenObjects:
        """Return a copy, at no cost: nothing is changed in place."""
        twin = SeenObjects(self.max_age_ms)
        twin._newest_ms, twin._horizon_ms, twin._runs = self._newest_ms, self._horizon_ms, [*self._runs]
        return twin

    def _without_forgotten(self) -> list[SeenRun]:
        """Return one run of the remembered objects, or none without objects."""
        # In some runs alone, a forgotten object could no longer hide its older version in the others.
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
    """Return the objects of all runs in order, each key from the last run that has it."""
    high, low = np.concatenate([run.high for run in runs]), np.concatenate([run.low for run in runs])
    # Stable, so that the last one stays last among equal keys.
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
