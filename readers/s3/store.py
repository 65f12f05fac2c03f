"""Reads ranges of one version of an object in a bucket, and retries until a deadline."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

from tidegate.errors import ConnectorError, ObjectGoneError, TransientError
from tidegate.readers.objects.values import SMALL_BYTES, Chunk, S3Object
from tidegate.readers.retry import Deadline
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.get import get_range
from tidegate.readers.s3.request import OVERWRITTEN, ask_s3, s3_error

AHEAD_BYTES = 4 * SMALL_BYTES
AHEAD_THREADS = 8
LEAST_S = 0.001  # the remaining time that a Deadline reports once it is over
STEP_BYTES = 256 << 10  # the bytes of a body between two checks of the deadline


def s3_object(key: str, size: int, answer: Any) -> S3Object:
    """Return the object that boto3's answer to a listing or to HEAD describes; both give the same object."""
    # HEAD gives whole seconds, and some endpoints list milliseconds.
    return S3Object(key, size, answer.get("ETag", "").strip('"'), int(answer["LastModified"].timestamp()) * 1000)


class ObjectStore:
    """A Bucket of S3.  Picklable; connects at the first request, and threads may share it."""

    def __init__(self, config: S3ConnectionConfig, bucket: str) -> None:
        self.config = config
        self.bucket = bucket
        self._ahead: _Ahead | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ahead": None}

    def address(self, key: str) -> str:
        """Return the address of an object, as errors name it: ``s3://bucket/key``."""
        return f"s3://{self.bucket}/{key}"

    def find(self, key: str) -> S3Object | None:
        """Return the current version of an object, as a listing shows it.

        LastModified is in whole seconds here, even if the endpoint lists milliseconds.

        Raises what :meth:`fetch` raises.
        """

        def ask() -> Any:
            return self.config.client().head_object(Bucket=self.bucket, Key=key)

        try:
            answer = ask_s3(ask, "look at", self.address(key), self.config.deadline_s)
        except ObjectGoneError:
            return None
        return s3_object(key, answer["ContentLength"], answer)

    def fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        """Return all bytes of an object from ``start`` to ``end``, exclusive, by one request.

        Raises ObjectGoneError if the version is gone: the object was deleted, or has another ETag or size now.  Without
        an ETag from the endpoint, only the size is compared.  Raises OptionError if there is no such bucket,
        DeadlineError if the endpoint fails or is silent for ``deadline_s``, and ConnectorError if it refuses.  A
        request that is under way at the deadline ends by its own time-outs, before another ``deadline_s`` has passed.
        """
        ahead = self._ahead
        data = None if ahead is None else ahead.take(obj, start, end)
        return self._fetch(obj, start, end) if data is None else data

    @contextmanager
    def reading_ahead(self, chunks: Sequence[Chunk]) -> Iterator[None]:
        """Fetch small objects ahead, while the caller reads these chunks in this order.

        Threads fetch the objects, and hold at most AHEAD_BYTES until :meth:`fetch` takes them.  An object that is read
        out of order is fetched at once.  A store takes one such call at a time.
        """
        wanted = list(dict.fromkeys(chunk.source for chunk in chunks if 0 < chunk.size <= SMALL_BYTES))
        if len(wanted) < 2:
            yield
            return
        with closing(_Ahead(self, wanted)) as ahead:
            self._ahead = ahead
            try:
                yield
            finally:
                self._ahead = None

    def _fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        target = self.address(obj.key)
        deadline = Deadline(f"read {target}", self.config.deadline_s)
        while True:
            try:
                return self._ask(obj, start, end, deadline)
            except TransientError as problem:  # noqa: PERF203 - a request takes far longer
                deadline.pause(problem)

    def _ask(self, obj: S3Object, start: int, end: int, deadline: Deadline) -> bytes:
        from botocore.exceptions import BotoCoreError, ClientError

        target = self.address(obj.key)
        pinned = {"IfMatch": f'"{obj.etag}"'} if obj.etag else {}
        try:
            client = self.config.client()
            version = obj.size, obj.etag
            parts = get_range(self.config, self.bucket, obj.key, (start, end), version, STEP_BYTES)
            if parts is not None:
                return _whole(parts, end - start, deadline)
            answer = client.get_object(Bucket=self.bucket, Key=obj.key, Range=f"bytes={start}-{end - 1}", **pinned)
            with closing(answer["Body"]) as body:
                self._check(obj, answer, start)
                return _whole(iter(lambda: body.read(STEP_BYTES), b""), end - start, deadline)
        except (BotoCoreError, ClientError, OSError) as problem:
            # An OSError is about a file of certificates or credentials.  Decoders would take it for damaged data.
            raise s3_error(problem, "read", target) from None

    def _check(self, obj: S3Object, answer: Any, start: int) -> None:
        target = self.address(obj.key)
        # An endpoint may answer the range of a whole object without Content-Range, and even without Content-Length.
        length = answer.get("ContentLength")
        whole = f"bytes 0-/{'*' if length is None else length}"
        span, _, size = answer.get("ContentRange", whole).rpartition("/")
        etag = answer.get("ETag", "").strip('"')
        if size not in {"*", str(obj.size)} or (obj.etag and etag != obj.etag):
            raise ObjectGoneError(f"{target} {OVERWRITTEN} after it was found", overwritten=True)
        if not span.startswith(f"bytes {start}-"):
            raise ConnectorError(f"the endpoint sent {target} from another byte than {start}")


def _whole(body: Iterator[bytes], length: int, deadline: Deadline) -> bytes:
    parts = []
    left = length
    for part in body:
        parts.append(part if len(part) <= left else part[:left])
        left -= len(parts[-1])
        if not left:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if deadline.remaining_s <= LEAST_S:
            raise TransientError(f"the answer lacked {left} of {length} bytes")
    raise TransientError(f"the answer ended {left} bytes too early")


class _Ahead:
    """Objects that threads fetch in the order in which the caller reads them."""

    def __init__(self, store: ObjectStore, wanted: Sequence[S3Object]) -> None:
        self._store = store
        self._wanted = iter(wanted)
        self._next = next(self._wanted, None)
        self._bytes = 0
        self._lock = threading.Lock()
        self._fetched: dict[S3Object, Future[bytes]] = {}
        self._taken: tuple[S3Object, Future[bytes]] | None = None
        self._threads = ThreadPoolExecutor(AHEAD_THREADS, "tidegate-read-ahead")
        self._fill()

    def take(self, obj: S3Object, start: int, end: int) -> bytes | None:
        """Return a range of an object that was fetched ahead, or that the last call took; None for any other object."""
        with self._lock:
            if self._taken is None or self._taken[0] != obj:
                if obj not in self._fetched:
                    return None
                self._taken = obj, self._fetched.pop(obj)
                self._bytes -= obj.size
                self._fill()
            future = self._taken[1]
        data = future.result()
        return data if (start, end) == (0, obj.size) else data[start:end]

    def close(self) -> None:
        """Drop the objects that nobody took; waits for the requests that are under way."""
        self._threads.shutdown(cancel_futures=True)

    def _fill(self) -> None:
        while self._next is not None and (not self._fetched or self._bytes + self._next.size <= AHEAD_BYTES):
            obj = self._next
            self._fetched[obj] = self._threads.submit(self._store._fetch, obj, 0, obj.size)  # noqa: SLF001
            self._bytes += obj.size
            self._next = next(self._wanted, None)
