"""Archives or deletes objects in the background after all their rows were read and committed (Spark: cleanSource).

The open work is a range of chunks of each manifest: those that a stored offset covers, without those that are already
cleaned.  The snapshot holds these ranges, so a killed run leaves them to the next run, which may clean an object
twice.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from typing import Any

import pyarrow as pa

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.errors import CheckpointError, ConnectorError, DeadlineError, ObjectGoneError, counted
from tidegate.readers.objects.values import CHUNK_SCHEMA, S3Object
from tidegate.readers.s3.config import S3Address
from tidegate.readers.s3.request import ask_s3
from tidegate.readers.s3.store import ObjectStore

MOST_COPIED_BYTES = 5 << 30  # S3's limit of one CopyObject request
PART_BYTES = 1 << 30


class ObjectCleaner:
    """Archives or deletes objects of a bucket, each in the version that was read.  Thread-safe.

    archive: the folder of archived objects, in which each has its own key; None: they are deleted.
    """

    def __init__(self, store: ObjectStore, archive: S3Address | None = None) -> None:
        self._store, self._archive = store, archive
        self._takes_condition = True

    def clean(self, obj: S3Object) -> bool:
        """Archive or delete an object.  Return True, also if it is gone; False: the key has another version.

        May be called again for the same object, whatever the first call did.  It leaves another version alone: it asks
        the endpoint for the present version, and names the version to delete (``If-Match``).  An endpoint that ignores
        ``If-Match`` deletes a version that was written between these two requests.

        Raises ConnectorError if the endpoint refuses, DeadlineError if it does not answer in time, and OptionError if
        there is no such bucket.
        """
        try:
            if self._archive is not None:
                self._copy(obj, self._archive.within(obj.key))
            there = self._store.find(obj.key)
            if there is not None and _is_other(there.obj, obj):
                return False
            if there is not None:
                self._delete(obj)
        except ObjectGoneError:
            return self._store.find(obj.key) is None
        return True

    def _copy(self, obj: S3Object, target: S3Address) -> None:
        from boto3.s3.transfer import TransferConfig

        settings = TransferConfig(
            multipart_threshold=MOST_COPIED_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
        )

        def copy() -> None:
            self._store.config.client().copy(
                {"Bucket": self._store.bucket, "Key": obj.key},
                target.bucket,
                target.key,
                ExtraArgs={"CopySourceIfMatch": f'"{obj.etag}"'} if obj.etag else {},
                Config=settings,
            )

        self._ask(copy, "archive an object as", str(target))

    def _delete(self, obj: S3Object) -> None:
        def delete() -> None:
            from botocore.exceptions import ClientError

            pinned = {"IfMatch": f'"{obj.etag}"'} if obj.etag and self._takes_condition else {}
            client = self._store.config.client()
            try:
                client.delete_object(Bucket=self._store.bucket, Key=obj.key, **pinned)
            except ClientError as problem:
                if not pinned or problem.response.get("Error", {}).get("Code") != "NotImplemented":
                    raise
                self._takes_condition = False
                client.delete_object(Bucket=self._store.bucket, Key=obj.key)

        self._ask(delete, "delete", self._store.address(obj.key))

    def _ask(self, request: Any, operation: str, target: str) -> None:
        ask_s3(request, operation, target, self._store.config.deadline_s)


def _is_other(there: S3Object, obj: S3Object) -> bool:
    """Return whether the present version is another one.  HeadObject gives whole seconds; a listing may give more."""
    if there.etag and obj.etag:
        return (there.etag, there.size) != (obj.etag, obj.size)
    return (there.size, there.modified_ms // 1000) != (obj.size, obj.modified_ms // 1000)


_LOG = logging.getLogger("tidegate.planner")
_THREADS = 8
_CHUNKS_AT_ONCE = 1024
_MOST_MANIFESTS = 8  # more manifests that only cleaning still needs are merged
_PATIENCE_S = 5.0  # for the rest of the work at the end


class SourceCleaning:
    """Cleans objects in the background, when all their chunks are read.

    clean: cleans one object; returns False for another version, which it leaves alone.  Called in any thread.
    read: returns a manifest by its name.  Called in any thread.

    An object that cannot be cleaned stays.  It is counted and named in the log, and does not end the query.
    """

    def __init__(
        self,
        clean: Callable[[S3Object], bool],
        read: Callable[[SplitId], Manifest],
        state: Mapping[SplitId, Sequence[int]],
    ) -> None:
        self._clean, self._read = clean, read
        self._changed = threading.Lock()
        self._ranges: dict[SplitId, tuple[int, int]] = {split: (done, end) for split, (done, end) in state.items()}
        self._live: Collection[SplitId] = ()
        self._manifests: dict[SplitId, Manifest] = {}
        self._counts: Counter[str] = Counter()
        self._ended = threading.Event()
        self._dispatcher = DaemonThreads(1, "tidegate-cleaning")
        self._threads = DaemonThreads(_THREADS, "tidegate-clean")
        self._run: Future[None] | None = None

    def advance(self, manifest: Manifest, end: int) -> None:
        """Allow the cleaning of objects whose last chunk is before ``end``, a position in a stored offset."""
        with self._changed:
            done, before = self._ranges.get(manifest.id, (0, 0))
            self._ranges[manifest.id] = (done, max(before, end))
            self._manifests[manifest.id] = manifest

    def go_on(self, live: Collection[SplitId]) -> None:
        """Go on in the background; manifests that cannot advance any more are forgotten when they are done."""
        with self._changed:
            self._live = {*live}
            self._forget()
            if self._run is None or self._run.done():
                self._run = self._dispatcher.submit(self._work)

    def merge(self, build: Callable[[pa.Table], Manifest]) -> None:
        """Merge manifests into one that ``build`` stores, if too many wait for cleaning."""
        with self._changed:
            waiting = {split: range_ for split, range_ in self._ranges.items() if split not in self._live}
        if len(waiting) <= _MOST_MANIFESTS:
            return
        left = []
        for split, (done, end) in waiting.items():
            try:
                left.append(self._manifest(split).last_chunks(done, end))
            except CheckpointError as problem:  # noqa: PERF203 - there are few
                _warn_of_lost(split, problem)
        merged = build(pa.Table.from_batches(left, CHUNK_SCHEMA))
        with self._changed:
            # Cleaning an object that was cleaned meanwhile does no harm.
            for split in waiting:
                self._ranges.pop(split, None)
            self._ranges[merged.id] = (0, len(merged))
            self._manifests[merged.id] = merged
            self._forget()

    def snapshot(self) -> dict[SplitId, list[int]]:
        """Return for each manifest the number of chunks that are done, and the number that may be cleaned."""
        with self._changed:
            return {split: [*range_] for split, range_ in self._ranges.items()}

    def metrics(self) -> dict[str, int]:
        """Return the number of objects that this run cleaned, and the number that it could not clean."""
        with self._changed:
            return {"numFilesCleaned": self._counts["cleaned"], "numFilesNotCleaned": self._counts["failed"]}

    def close(self) -> None:
        """End soon; the next run cleans the rest."""
        if self._run is not None:
            wait([self._run], _PATIENCE_S)
        self._ended.set()
        self._dispatcher.shutdown(wait=False)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        """Forget the manifests that are done.  The caller holds the lock."""
        for split, (done, end) in [*self._ranges.items()]:
            if done >= end and split not in self._live:
                del self._ranges[split]
        self._manifests = {split: manifest for split, manifest in self._manifests.items() if split in self._ranges}

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            split, start, end = taken
            is_lost = False
            try:
                self._clean_all(self._manifest(split).last_chunks(start, end))
            except CheckpointError as problem:
                _warn_of_lost(split, problem)
                is_lost = True
            except ConnectorError as problem:
                _LOG.warning("objects are cleaned later: %s", problem)
                return
            except CancelledError:
                return
            with self._changed:
                if split in self._ranges:
                    last = self._ranges[split][1]
                    self._ranges[split] = (last if is_lost else end, last)

    def _next(self) -> tuple[SplitId, int, int] | None:
        with self._changed:
            self._forget()
            for split, (done, end) in self._ranges.items():
                if done < end and not self._ended.is_set():
                    return split, done, min(end, done + _CHUNKS_AT_ONCE)
        return None

    def _clean_all(self, chunks: pa.RecordBatch) -> None:
        """Clean the objects of some chunks.  Raises DeadlineError if the endpoint does not answer."""
        objects = map(S3Object, *(chunks[name].to_pylist() for name in S3Object._fields))
        calls = {obj: self._threads.submit(self._clean_one, obj) for obj in objects}
        outcomes = {obj: call.result() for obj, call in calls.items()}
        problems = {obj.key: outcome for obj, outcome in outcomes.items() if isinstance(outcome, Exception)}
        for problem in problems.values():
            if isinstance(problem, DeadlineError):
                raise problem
        with self._changed:
            self._counts["failed"] += len(problems)
            self._counts["cleaned"] += sum(outcome is True for outcome in outcomes.values())
        if problems:
            key, problem = next(iter(problems.items()))
            _LOG.warning("not cleaned: %s, such as %r: %s", counted(len(problems), "object"), key, problem)

    def _clean_one(self, obj: S3Object) -> bool | Exception:
        try:
            return self._clean(obj)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the query reads on
            return problem

    def _manifest(self, split: SplitId) -> Manifest:
        with self._changed:
            cached = self._manifests.get(split)
        manifest = cached or self._read(split)
        with self._changed:
            self._manifests[split] = manifest
        return manifest


def _warn_of_lost(split: SplitId, problem: CheckpointError) -> None:
    # The reader that needs it raises the error.
    _LOG.warning("the objects of the manifest %s are not cleaned: %s", split, problem)
