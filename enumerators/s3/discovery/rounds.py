"""A discovery round: cuts the new objects of a listing or a queue into the chunks of one manifest.

It records which objects were left out, and why, for users who ask why an object was not read.  Objects that options
leave out (by name or LastModified) are not recorded: the options show that at any time.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

import pyarrow as pa

from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.s3.discovery.complete_folders import MarkedFolders
from tidegate.enumerators.s3.notifications.objects import ObjectNotifications
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.errors import CorruptDataError, ObjectGoneError, counted
from tidegate.readers.objects.values import CHUNK_SCHEMA, SKIP_CORRUPT, Chunk, ObjectFormat, S3Object

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


_LOG = logging.getLogger("tidegate.planner")
_THREADS = 16
_PATIENCE_S = 5.0  # for a round; a longer round continues beside the plans
_OBJECTS_AT_ONCE = 8  # each is a request, one after the other
_MOST_WAITING = 256  # groups of objects: they are taken in order, and a slow one must not stop the threads
_OBJECTS_PER_BATCH = 10_000


class ObjectDiscovery:
    """Finds new objects, and cuts them into chunks.

    pages: lists all objects, in pages; called once per round that lists.
    seen: the objects that were found before; every round that ends well updates it.
    allow_overwrites: an object that was overwritten is found again; otherwise the new version is left
        out, with a warning.
    ignore_corrupt: leave out objects that cannot be cut; otherwise they end the round.
    left_out: an attribute: the objects that were left out, with the reasons.
    notifications: an attribute: tell of new objects between full listings; None: every round is a full listing.
    folders: an attribute: the folders that markers call complete.
    """

    def __init__(
        self,
        pages: Callable[[], Generator[Sequence[S3Object]]],
        object_format: ObjectFormat,
        times: ObjectTimes,
        seen: SeenObjects,
        *,
        allow_overwrites: bool = False,
        ignore_corrupt: bool = False,
        notifications: ObjectNotifications | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pages, self._format, self._times, self.seen = pages, object_format, times, seen
        self._allow_overwrites, self._ignore_corrupt, self._clock = allow_overwrites, ignore_corrupt, clock
        self.notifications = notifications
        self.folders: MarkedFolders | None = None
        self._stopped = threading.Event()
        self._has_listed = False
        self.left_out = LeftOut()

    def stop(self) -> None:
        """Let a round in another thread raise CancelledError soon."""
        self._stopped.set()
        if self.notifications is not None:
            self.notifications.stop()

    def metrics(self) -> Mapping[str, int]:
        """Return the metrics of this run."""
        return {
            "numFilesLeftOut": self.left_out.count,
            **({} if self.notifications is None else self.notifications.metrics()),
        }

    def round(self, *, existing: bool = True) -> pa.Table:
        """Run one round, and return the chunks of new objects, as columns of CHUNK_SCHEMA.

        existing: False: remember the existing objects, and return no chunks.

        Raises ConnectorError if the listing or the queue fails, CorruptDataError for an object that cannot be cut.  A
        round that raises remembers nothing: the next one finds the objects again.
        """
        begun_ms = int(self._clock() * 1000)
        seen = self.seen.copy()
        found: list[pa.RecordBatch] = []
        taken: set[str] = set()  # the keys that this round has found, and ``seen`` does not know yet
        lists = self.notifications is None or self.notifications.begin_round(begun_ms, self.seen.newest_ms)
        if self.folders is not None:
            self.folders.begin_round(begun_ms, lists=lists)
        with DaemonThreads(_THREADS, "tidegate-survey") as pool:

            def survey(fresh: Iterator[S3Object]) -> Generator[tuple[S3Object, list[Chunk]]]:
                return self._surveyed(pool, fresh, begun_ms) if existing else ((obj, []) for obj in fresh)

            # One after the other, so that an object in both is known the second time.
            for find in self._finders(lists=lists, existing=existing):
                with closing(find()) as pages, closing(survey(self._fresh(pages, seen, taken, begun_ms))) as surveyed:
                    while some := list(islice(surveyed, _OBJECTS_PER_BATCH)):
                        seen.add([obj for obj, _ in some])
                        taken.difference_update(obj.key for obj, _ in some)
                        if self.folders is not None and existing:
                            self.folders.add(self._holding(some))
                        found.append(_columns([chunk for _, chunks in some for chunk in chunks]))
        seen.end_round(begun_ms if self.notifications is None else self.notifications.end_round(begun_ms))
        self.seen = seen
        if not (self._has_listed or seen.runs or self.left_out.count):
            _LOG.warning("there is no object to read yet: check the options path and pathGlobFilter if there should be")
        self._has_listed = True
        if self.folders is not None:
            self.folders.end_round()
        return pa.Table.from_batches(found, CHUNK_SCHEMA)

    def _finders(self, *, lists: bool, existing: bool) -> Iterator[Callable[[], Generator[Sequence[S3Object]]]]:
        if lists:
            yield self._pages
        # Even if it lists: while a bounded run lists, nobody else takes the messages that arrive.
        if self.notifications is not None and existing:
            yield self.notifications.pages
        if self.folders is not None:
            for folder in self.folders.unsettled():
                yield partial(self.folders.pages, folder)

    def _holding(self, surveyed: Iterable[tuple[S3Object, list[Chunk]]]) -> list[S3Object]:
        """Return the objects whose folders hold back the watermark: those that may have rows in the range."""
        return [obj for obj, chunks in surveyed if chunks or not self._times.wanted.is_bounded]

    def _fresh(
        self, pages: Iterable[Sequence[S3Object]], seen: SeenObjects, taken: set[str], now_ms: int
    ) -> Iterator[S3Object]:
        """Yield the objects that are new, each once, even if the endpoint lists a key on two pages."""
        left_out: list[S3Object] = []
        for listed in pages:
            if self._stopped.is_set():
                raise CancelledError
            page = listed if self.folders is None else self.folders.without_markers(listed)
            new, overwritten = seen.sift([obj for obj in page if obj.key not in taken])
            taken.update(obj.key for obj in (*new, *(overwritten if self._allow_overwrites else ())))
            yield from new
            if self._allow_overwrites:
                yield from overwritten
            else:
                left_out += [obj for obj in overwritten if self.left_out.add(obj, "overwritten", now_ms)]
        if left_out:
            _LOG.warning(
                "left out, because allowOverwrites is false: %s that changed after discovery, such as %r",
                counted(len(left_out), "object"),
                left_out[0].key,
            )

    def _surveyed(
        self, pool: Executor, objects: Iterable[S3Object], now_ms: int
    ) -> Generator[tuple[S3Object, list[Chunk]], None, None]:
        """Yield objects with their chunks; many threads look at them, a bounded number at once."""
        waiting: deque[Future[list[tuple[S3Object, list[Chunk]]]]] = deque()
        remaining = iter(objects)
        given_up = threading.Event()
        try:
            while some := list(islice(remaining, _OBJECTS_AT_ONCE)):
                waiting.append(pool.submit(self._survey, some, now_ms, given_up))
                if len(waiting) > _MOST_WAITING:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            # Each waiting object could take its whole deadline before the error is raised.
            given_up.set()

    def _survey(
        self, objects: Sequence[S3Object], now_ms: int, given_up: threading.Event
    ) -> list[tuple[S3Object, list[Chunk]]]:
        def go_on() -> None:
            if self._stopped.is_set() or given_up.is_set():
                raise CancelledError

        surveyed = []
        for obj in objects:
            go_on()
            chunks = self._chunks(obj, now_ms)
            if chunks is not None:
                surveyed.append((obj, chunks))
        return surveyed

    def _chunks(self, obj: S3Object, now_ms: int) -> list[Chunk] | None:
        """Return the chunks of an object; None: it is gone, and must not be remembered."""
        try:
            pieces = self._format.survey(obj, self._times.column_in(obj))
        except ObjectGoneError:
            # If it comes back as another version, it is new.
            _LOG.warning("the object %r was deleted or overwritten before it could be looked at", obj.key)
            self.left_out.add(obj, "gone", now_ms)
            return None
        except CorruptDataError as error:
            if not self._ignore_corrupt:
                raise CorruptDataError(f"{error}; {SKIP_CORRUPT}") from error
            _LOG.warning("left out: %s", error)
            self.left_out.add(obj, "corrupt", now_ms)
            return []
        # An error in its times does not mean that the object is damaged.
        chunks = [self._times.chunk(obj, piece, now_ms) for piece in pieces]
        return [chunk for chunk in chunks if chunk is not None]


def _columns(chunks: Sequence[Chunk]) -> pa.RecordBatch:
    columns = zip(*chunks, strict=True) if chunks else [()] * len(CHUNK_SCHEMA)
    return pa.record_batch(
        [pa.array(values, field.type) for values, field in zip(columns, CHUNK_SCHEMA, strict=True)], CHUNK_SCHEMA
    )


class BackgroundRounds:
    """Runs one round at a time, in a thread beside the plans, so that a long round delays no batch."""

    def __init__(self, find: Callable[[], pa.Table]) -> None:
        self._find = find
        self._pool: DaemonThreads | None = None
        self._round: Future[pa.Table] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a round has begun whose result has not been returned."""
        return self._round is not None

    def begin(self) -> Future[pa.Table]:
        """Begin a round, unless one is running."""
        if self._pool is None:
            self._pool = DaemonThreads(1, "tidegate-discovery")
        if self._round is None:
            self._round = self._pool.submit(self._find)
        return self._round

    def found(self) -> pa.Table | None:
        """Return the result of a round; None: it is still running.  Raises the errors of the round.

        The first call waits for its round to end, because a bounded run must read all objects.  A later call waits for
        some seconds, and leaves a longer round to the next calls.
        """
        patience_s = None if self._pool is None else _PATIENCE_S if self._round is None else 0.0
        current = self.begin()
        if not wait([current], patience_s).done:
            return None
        self._round = None
        return current.result()

    def close(self) -> None:
        """Begin no more rounds."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
