"""Sends the GETs of objects and of listings, which come in great numbers.

boto3 names the address, the region, the certificates and the credentials, but its own call takes ten times the CPU, and
http.client's twice as much.
No redirect is followed.  Whatever is not a plain answer is left to boto3's client, which repeats the request, explains
errors, and follows a bucket to its region.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import hmac
import io
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from tidegate.errors import TransientError
from tidegate.readers.s3.config import PAYER, S3ConnectionConfig

STEP_BYTES = 256 << 10  # the most bytes of a body between two checks of a deadline
_BUFFER_BYTES = 64 << 10
_MOST_HEADERS = 1000
_MOST_IDLE = 64
_PLAIN = {"accept-encoding": "identity"}
_NO_BODY = hashlib.sha256().hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"


class Answer(NamedTuple):
    """An answer whose body is not read yet.

    headers: by names in lower case.
    read: returns the next bytes, at most so many; empty at the end.
    """

    status: int
    headers: Mapping[str, str]
    read: Callable[[int], bytes]


class Scope(NamedTuple):
    """What the signature of a request is valid for, and who signs."""

    access_key: str
    secret_key: str
    token: str | None
    region: str


@contextmanager
def signed_get(
    config: S3ConnectionConfig, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> Iterator[Answer | None]:
    """Send one GET, and yield its answer if the status is 200 or 206.

    key: of an object; empty: the request is about the bucket.
    headers: not signed.

    Yields None for any other answer, for none, and if boto3 has to send such requests: through a proxy, or signed in
    another way.  Then repeat the request by boto3's client.  ``read`` raises TransientError if the body breaks off.
    Raises botocore's errors if there is no such address.
    """
    endpoint = _endpoint(config, bucket, os.getpid())
    opened = None if endpoint is None else endpoint.get(key, query, headers)
    if endpoint is None or opened is None:
        yield None
        return
    connection, answer = opened
    try:
        yield answer
    finally:
        endpoint.keep(connection)


class _Connection:
    """A connection to a host, for one GET after the other.  Raises OSError, and ValueError for what is not HTTP."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None, silent_s: float) -> None:
        connected = socket.create_connection((host, port), min(silent_s, 5))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket = connected if context is None else context.wrap_socket(connected, server_hostname=host)
        except OSError:
            connected.close()
            raise
        self._socket.settimeout(silent_s)
        self._file = io.BufferedReader(self._socket.makefile("rb", 0), _BUFFER_BYTES)
        self._left: int | None = 0  # of the body, or of its chunk; None: the body ends with the connection
        self._is_chunked = self._closes = False

    @property
    def is_free(self) -> bool:
        """Whether the last answer was read to its end, and another request may follow."""
        return self._left == 0 and not self._is_chunked and not self._closes

    def is_over(self) -> bool:
        """Return whether the other side has closed an idle connection, or sent what nobody asked for."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def get(self, target: str, headers: Mapping[str, str]) -> Answer:
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        text = "\r\n".join(lines)
        if text.count("\n") != len(lines) - 1:
            raise ValueError("a header holds a line break")
        self._closes = True  # unless the answer says otherwise
        self._socket.sendall(text.encode("latin-1"))
        version, _, status = self._line().partition(" ")
        received = dict(self._headers())
        self._is_chunked = received.get("transfer-encoding", "").lower() == "chunked"
        length = received.get("content-length")
        self._left = 0 if self._is_chunked else None if length is None else _size(length)
        self._closes = version != "HTTP/1.1" or self._left is None or received.get("connection", "").lower() == "close"
        return Answer(int(status[:3]), received, self._read)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _read(self, most: int) -> bytes:
        try:
            if self._is_chunked and not self._left:
                self._left = _size(self._line().partition(";")[0], 16)
                if not self._left:
                    for _ in self._headers():  # the trailers
                        pass
                    self._is_chunked = False
            data = self._file.read1(most if self._left is None else min(most, self._left))
            if self._left:
                self._left -= len(data)
                if self._is_chunked and not self._left:
                    self._line()
        except (OSError, ValueError) as problem:
            raise TransientError(f"the answer broke off: {problem}") from None
        return data

    def _headers(self) -> Iterator[tuple[str, str]]:
        for _ in range(_MOST_HEADERS):
            line = self._line()
            if not line:
                return
            name, _, value = line.partition(":")
            yield name.lower(), value.strip()
        raise ValueError("the answer has no end of headers")

    def _line(self) -> str:
        line = self._file.readline(_BUFFER_BYTES)
        if not line.endswith(b"\n"):
            raise ValueError("a line of the answer has no end")
        return line.decode("latin-1").rstrip("\r\n")


def _size(text: str, base: int = 10) -> int:
    size = int(text, base)
    if size < 0:
        raise ValueError("a size is negative")
    return size


class _Endpoint:
    """The address of a bucket, and idle connections to it.  Thread-safe."""

    def __init__(self, config: S3ConnectionConfig, address: str, region: str) -> None:
        self._config, self._region = config, region
        self._url = urlsplit(address)
        self._idle: deque[_Connection] = deque(maxlen=_MOST_IDLE)
        self._context = None if self._url.scheme == "http" else _trusting(config)

    def get(self, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> tuple[_Connection, Answer] | None:
        path = f"{self._url.path}/{quote(key, safe='/-._~')}" if key else self._url.path or "/"
        text = canonical_query(query)
        signed = self._signed(path, text)
        if signed is None:
            return None
        connection = None
        try:
            connection = self._connection()
            answer = connection.get(f"{path}?{text}" if text else path, {**signed, **_PLAIN, **headers})
        except (OSError, ValueError):
            if connection is not None:
                connection.close()
            return None
        if answer.status in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
            return connection, answer
        connection.close()
        return None

    def keep(self, connection: _Connection) -> None:
        """Keep a connection for later requests, if the answer was read to its end."""
        if connection.is_free and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _signed(self, path: str, query: str) -> dict[str, str] | None:
        """Return the headers that the signature covers, and itself, or None without credentials."""
        covered = {"host": self._url.netloc, **(PAYER if self._config.requester_pays else {})}
        if self._config.anonymous:
            return covered
        credentials = self._config.credentials()
        if credentials is None:
            return None
        frozen = credentials.get_frozen_credentials()
        scope = Scope(frozen.access_key, frozen.secret_key, frozen.token, self._region)
        return signed_headers(scope, datetime.now(timezone.utc), path, query, covered)

    def _connection(self) -> _Connection:
        while self._idle:
            try:
                idle = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if not idle.is_over():
                return idle
            idle.close()
        port = self._url.port or (443 if self._context else 80)
        return _Connection(self._url.hostname or "", port, self._context, self._config.deadline_s / 8)


# Sockets must not be shared with a fork.
@functools.lru_cache(maxsize=64)
def _endpoint(config: S3ConnectionConfig, bucket: str, _process_id: int) -> _Endpoint | None:
    from botocore.utils import get_environ_proxies

    # A signed URL shows the address by all of boto3's rules for endpoints, and how its requests are signed.
    url: str = config.client().generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "-"})
    address, _, query = url.partition("?")
    if get_environ_proxies(address):
        return None
    signing = {name.lower(): values[0] for name, values in parse_qs(query).items()}
    _, _, region, service, _ = signing.get("x-amz-credential", "////").rsplit("/", 4)
    if not config.anonymous and (signing.get("x-amz-algorithm") != _ALGORITHM or service != "s3"):
        return None
    endpoint = _Endpoint(config, address.removesuffix("/-"), region)
    atexit.register(endpoint.close)
    return endpoint


def _trusting(config: S3ConnectionConfig) -> ssl.SSLContext:
    from botocore.httpsession import get_cert_path

    named = Path(get_cert_path(config.trusted()))
    is_folder = named.is_dir()
    return ssl.create_default_context(
        cafile=None if is_folder else str(named), capath=str(named) if is_folder else None
    )


def canonical_query(query: Mapping[str, str]) -> str:
    """Return the query of a URL as it is signed: encoded, and in the order of the encoded names."""
    encoded = {quote(name, safe=""): quote(value, safe="") for name, value in query.items()}
    return "&".join(f"{name}={encoded[name]}" for name in sorted(encoded))


def signed_headers(scope: Scope, now: datetime, path: str, query: str, covered: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a GET without a body, with its signature (AWS: Signature Version 4).

    path, query: as they are sent, the query as ``canonical_query`` returns it.
    covered: headers to sign, ``host`` among them, by names in lower case.
    """
    at = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {**covered, "x-amz-content-sha256": _NO_BODY, "x-amz-date": at}
    if scope.token:
        headers["x-amz-security-token"] = scope.token
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = "\n".join(["GET", path, query, *lines, "", names, _NO_BODY])
    place = f"{at[:8]}/{scope.region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, at, place, hashlib.sha256(request.encode()).hexdigest()])
    signature = _hmac(_signing_key(scope.secret_key, *place.split("/")), text).hex()
    headers["authorization"] = (
        f"{_ALGORITHM} Credential={scope.access_key}/{place}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


@functools.lru_cache(maxsize=16)
def _signing_key(secret_key: str, *place: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in place:
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), "sha256").digest()


def boto3_answer(answer: Any) -> Answer:
    """Return the answer of boto3's client to a GET of an object as one of this module."""
    described = answer["ResponseMetadata"]
    return Answer(described["HTTPStatusCode"], described["HTTPHeaders"], answer["Body"].read)
