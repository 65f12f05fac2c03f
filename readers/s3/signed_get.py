"""Sends the GETs of objects and of listings, which come in great numbers, by http.client.

boto3 names the address, the region, the certificates and the credentials, but its own call takes several times the CPU.
No redirect is followed.  Whatever is not a plain answer is left to boto3's client, which repeats the request, explains
errors, and follows a bucket to its region.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import hmac
import os
import select
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, quote, urlsplit

from tidegate.errors import TransientError
from tidegate.readers.s3.config import PAYER, S3ConnectionConfig

STEP_BYTES = 256 << 10  # the most bytes of a body between two checks of a deadline
_MOST_IDLE = 64
_NO_BODY = hashlib.sha256().hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"


class _Headers(Protocol):
    def get(self, name: str, /) -> str | None: ...


class Answer(NamedTuple):
    """An answer whose body is not read yet.

    headers: by names in lower case.
    read: returns the next bytes, at most so many; empty at the end.
    """

    status: int
    headers: _Headers
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
    connection, response = opened
    try:
        yield Answer(response.status, response.headers, functools.partial(_read, response))
    finally:
        endpoint.keep(connection, response)


def _read(response: HTTPResponse, most: int) -> bytes:
    try:
        return response.read1(most)
    except (OSError, HTTPException) as problem:
        raise TransientError(f"the answer broke off: {problem}") from None


class _Endpoint:
    """The address of a bucket, and idle connections to it.  Thread-safe."""

    def __init__(self, config: S3ConnectionConfig, address: str, region: str) -> None:
        self._config, self._region = config, region
        self._url = urlsplit(address)
        self._idle: deque[HTTPConnection] = deque(maxlen=_MOST_IDLE)
        self._context = None if self._url.scheme == "http" else _trusting(config)

    def get(
        self, key: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[HTTPConnection, HTTPResponse] | None:
        path = f"{self._url.path}/{quote(key, safe='/-._~')}" if key else self._url.path or "/"
        text = canonical_query(query)
        signed = self._signed(path, text)
        if signed is None:
            return None
        connection = None
        try:
            connection = self._connection()
            connection.putrequest("GET", f"{path}?{text}" if text else path, skip_host=True)
            for name, value in {**signed, **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
        except (OSError, HTTPException):
            if connection is not None:
                connection.close()
            return None
        if response.status in {200, 206}:
            return connection, response
        connection.close()
        return None

    def keep(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        """Keep a connection for later requests, if the answer was read to its end."""
        is_read = response.isclosed() or response.length == 0
        response.close()
        if is_read and not response.will_close and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _signed(self, path: str, query: str) -> dict[str, str] | None:
        """Return the headers that the signature covers, and itself; None: there are no credentials."""
        covered = {"host": self._url.netloc, **(PAYER if self._config.requester_pays else {})}
        if self._config.anonymous:
            return covered
        credentials = self._config.credentials()
        if credentials is None:
            return None
        frozen = credentials.get_frozen_credentials()
        scope = Scope(frozen.access_key, frozen.secret_key, frozen.token, self._region)
        return signed_headers(scope, datetime.now(timezone.utc), path, query, covered)

    def _connection(self) -> HTTPConnection:
        while self._idle:
            try:
                idle = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if not _is_over(idle):
                return idle
            idle.close()
        silent_s = self._config.deadline_s / 8
        host, port, connect_s = self._url.hostname or "", self._url.port, min(silent_s, 5)
        if self._context is None:
            connection = HTTPConnection(host, port, timeout=connect_s)
        else:
            connection = HTTPSConnection(host, port, timeout=connect_s, context=self._context)
        connection.connect()
        connection.sock.settimeout(silent_s)
        return connection


def _is_over(connection: HTTPConnection) -> bool:
    """Return whether the other side has closed an idle connection, or sent what nobody asked for."""
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    return bool(waiting.poll(0))


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
