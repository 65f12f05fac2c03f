"""Reads ranges of one version of an object in a bucket, and retries until a deadline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Any

from tidegate.errors import ConnectorError, DeadlineError, ObjectGoneError, TransientError
from tidegate.readers.objects.values import SMALL_BYTES, Chunk, S3Object
from tidegate.readers.retry import Deadline
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import Listed, PageRequest, bare_etag, list_page, s3_object
from tidegate.readers.s3.request import DELETED, OVERWRITTEN, ask_s3, failures, s3_error
from tidegate.readers.s3.signed_get import STEP_BYTES, Answer, boto3_answer, signed_get

_LOG = logging.getLogger("tidegate.reader")

AHEAD_BYTES = 4 * SMALL_BYTES
AHEAD_THREADS = 8
LEAST_S = 0.001  # the remaining time that a Deadline reports once it is over
MOST_REMEMBERED = 10_000
_WHY = "; perhaps something between decompresses it"


class ObjectStore:
    """A Bucket of S3.  Picklable; connects at the first request, and threads may share it."""

    def __init__(self, config: S3ConnectionConfig, bucket: str) -> None:
        self.config = config
        self.bucket = bucket
        self._ahead: _Ahead | None = None
        self._sent_as: dict[S3Object, str] = {}  # the ETags of objects that are not sent with those that are listed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ahead": None, "_sent_as": {}}

    def address(self, key: str) -> str:
        """Return the address of an object, as errors name it: ``s3://bucket/key``."""
        return f"s3://{self.bucket}/{key}"

    def find(self, key: str) -> Listed | None:
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
        if "ContentLength" not in answer or "LastModified" not in answer:
            raise ConnectorError(f"the endpoint does not say how large {self.address(key)} is, or when it was modified")
        found = s3_object(key, answer["ContentLength"], answer.get("ETag"), answer["LastModified"])
        return Listed(found, answer.get("StorageClass", ""))

    def fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        """Return all bytes of an object from ``start`` to ``end``, exclusive, by one request.

        Raises ObjectGoneError if the version is gone: the object was deleted, or has another ETag or size now.  Without
        an ETag from the endpoint, only the size is compared.  Raises OptionError if there is no such bucket,
        DeadlineError if the endpoint fails or is silent for ``deadline_s``, and ConnectorError if it refuses, redirects
        the request, or sends more bytes than it listed.  A
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
        target, confirmed = self.address(obj.key), False
        deadline = Deadline(f"read {target}", self.config.deadline_s)
        while True:
            try:
                return self._ask(obj, start, end, deadline)
            except TransientError as problem:  # noqa: PERF203 - a request takes far longer
                deadline.pause(problem)
            except ObjectGoneError as gone:
                if not gone.overwritten or self._is_overwritten(obj):
                    raise
                if confirmed:
                    raise ConnectorError(
                        f"the endpoint lists {target} with {obj.size} bytes and the ETag {obj.etag!r}, but sends "
                        "something else, although nobody has overwritten it"
                    ) from gone
                confirmed = True

    def _is_overwritten(self, obj: S3Object) -> bool:
        """Return whether another version has taken the place of one that the endpoint did not send.

        Some gateways list an ETag, and send another one, or never find theirs equal to the one of a condition.  Then
        remember the ETag that HEAD shows.
        """
        target = self.address(obj.key)
        now = self.find(obj.key)
        if now is None:
            raise ObjectGoneError(f"{target} {DELETED} after it was found", overwritten=False)
        if now.obj.size != obj.size:
            return True
        if now.obj.etag != obj.etag and not self._is_listed(obj):
            return True
        if not self._sent_as:
            _LOG.warning(
                "the endpoint lists %s with the ETag %r, but sends it with %r, by which such versions are compared",
                target,
                obj.etag,
                now.obj.etag,
            )
        while len(self._sent_as) >= MOST_REMEMBERED:
            self._sent_as.pop(next(iter(self._sent_as)))
        self._sent_as[obj] = now.obj.etag
        return False

    def _is_listed(self, obj: S3Object) -> bool:
        """Return whether a listing still shows a version; False if the endpoint refuses to list."""
        try:
            page = list_page(self.config, PageRequest(self.bucket, obj.key), "list", self.address(obj.key))
        except DeadlineError:
            raise
        except ConnectorError:
            return False
        return any(listed.obj == obj for listed in page.listed)

    def _ask(self, obj: S3Object, start: int, end: int, deadline: Deadline) -> bytes:
        # An endpoint that sends another ETag than it lists also compares that one with a condition.
        etag = self._sent_as.get(obj)
        pinned = {"If-Match": f'"{obj.etag}"'} if obj.etag and etag is None else {}
        span = f"bytes={start}-{end - 1}"
        try:
            with signed_get(self.config, self.bucket, obj.key, {}, {"Range": span, **pinned}) as answer:
                if answer is not None:
                    return self._body(obj, etag, start, end, answer, deadline)
            condition = {name.replace("-", ""): value for name, value in pinned.items()}
            whole = self.config.client().get_object(Bucket=self.bucket, Key=obj.key, Range=span, **condition)
            with closing(whole["Body"]):
                return self._body(obj, etag, start, end, boto3_answer(whole), deadline)
        except failures() as problem:  # decoders would take an OSError for damaged data
            raise s3_error(problem, "read", self.address(obj.key)) from None

    def _body(self, obj: S3Object, etag: str | None, start: int, end: int, answer: Answer, deadline: Deadline) -> bytes:
        target = self.address(obj.key)
        # An endpoint may answer the range of a whole object without Content-Range, and even without Content-Length.
        length = answer.headers.get("content-length")
        whole = f"bytes 0-/{'*' if length is None else length}"
        span, _, size = (answer.headers.get("content-range") or whole).rpartition("/")
        sent, expected = bare_etag(answer.headers.get("etag")), obj.etag if etag is None else etag
        if expected and sent != expected:
            raise ObjectGoneError(f"{target} {OVERWRITTEN} after it was found", overwritten=True)
        if size not in {"*", str(obj.size)}:
            if expected:
                raise ConnectorError(
                    f"the endpoint sends {target} with {size} bytes, but lists it with {obj.size}{_WHY}"
                )
            raise ObjectGoneError(f"{target} {OVERWRITTEN} after it was found", overwritten=True)
        if not span.startswith(f"bytes {start}-"):
            raise ConnectorError(f"the endpoint sent {target} from another byte than {start}")
        data = _whole(answer, end - start, deadline)
        # The rest of an answer without a range was not asked for.
        if (answer.status == HTTPStatus.PARTIAL_CONTENT or end == obj.size) and answer.read(1):
            raise ConnectorError(f"the endpoint sends more bytes of {target} than the {obj.size} that it lists{_WHY}")
        return data


def _whole(answer: Answer, length: int, deadline: Deadline) -> bytes:
    parts = []
    left = length
    while part := answer.read(min(left, STEP_BYTES)):
        parts.append(part)
        left -= len(part)
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
