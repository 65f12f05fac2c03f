"""Lists the objects and the folders of a bucket, page by page."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

from tidegate.errors import ConnectorError, TransientError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.request import ask_s3
from tidegate.readers.s3.signed_get import STEP_BYTES, signed_get

MOST_PAGE_BYTES = 32 << 20  # a thousand keys of S3's greatest length, each letter escaped, have less
ARCHIVED = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""The storage classes whose objects must be restored before they can be read."""
_ROOT = "ListBucketResult"
_WHOLE = "Whole"


class Listed(NamedTuple):
    """An object, and its storage class; empty: the endpoint names none."""

    obj: S3Object
    storage_class: str = ""


class Page(NamedTuple):
    """A page of a listing.

    folders: the prefixes below which the listing did not go; each ends in ``/``.
    token: continues the listing; None: this is the last page.
    """

    listed: list[Listed]
    folders: list[str]
    token: str | None


class PageRequest(NamedTuple):
    """A request for a page.

    is_shallow: name the folders directly below the prefix, and list nothing in them.
    token: that of the page before; None: the first page.
    most_keys: the greatest number of objects and folders on the page.
    """

    bucket: str
    prefix: str
    is_shallow: bool = False
    token: str | None = None
    most_keys: int = 1000

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the request."""
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(self.most_keys), "prefix": self.prefix}
        return query | self._options("delimiter", "continuation-token")

    @property
    def parameters(self) -> dict[str, Any]:
        """The same, as boto3's client takes them."""
        parameters = {"Bucket": self.bucket, "Prefix": self.prefix, "MaxKeys": self.most_keys}
        return parameters | self._options("Delimiter", "ContinuationToken")

    def _options(self, delimiter: str, token: str) -> dict[str, str]:
        return {**({delimiter: "/"} if self.is_shallow else {}), **({} if self.token is None else {token: self.token})}


def list_pages(
    config: S3ConnectionConfig,
    request: PageRequest,
    operation: str = "list",
    target: str | None = None,
    seconds: float | None = None,
    stopped: threading.Event | None = None,
) -> Iterator[Page]:
    """Yield the pages of a listing, each when its turn comes.  Endpoints differ in the order, and some repeat folders.

    operation, target, seconds, stopped: as ``ask_s3`` takes them; default: the prefix, and the connection's deadline.

    Raises the errors of ``list_page``, and ConnectorError for a token that was there before.
    """
    tokens: set[str] = set()
    target = target or f"s3://{request.bucket}/{request.prefix}"
    while True:
        page = list_page(config, request, operation, target, seconds, stopped)
        yield page
        if page.token is None:
            return
        if page.token in tokens:
            raise ConnectorError(f"the endpoint repeats a token in the listing of {target}, which would never end")
        tokens.add(page.token)
        request = request._replace(token=page.token)


def list_page(
    config: S3ConnectionConfig,
    request: PageRequest,
    operation: str,
    target: str,
    seconds: float | None = None,
    stopped: threading.Event | None = None,
) -> Page:
    """Return a page of a listing.  It is requested again while the endpoint answers 200 without a listing.

    Raises the errors of ``ask_s3``, and ConnectorError if the endpoint cuts the listing and gives no token to continue.
    """

    def ask() -> Page:
        with signed_get(config, request.bucket, "", request.query, {}) as answer:
            if answer is not None:
                return _parsed(b"".join(_bounded(iter(partial(answer.read, STEP_BYTES), b""))))
        return _parsed(_listing_client(config, os.getpid()).list_objects_v2(**request.parameters).get(_WHOLE, b""))

    page = ask_s3(ask, operation, target, seconds or config.deadline_s, stopped)
    if page.token == "":
        raise ConnectorError(f"the endpoint cut the listing of {target} and gave no token to continue")
    return page


def s3_object(key: str, size: int, etag: str | None, modified: Any) -> S3Object:
    """Return the object that a listing or HEAD describes; both give the same object.

    etag: as the endpoint gives it; None: it gives none.
    """
    # HEAD gives whole seconds, and some endpoints list milliseconds.
    return S3Object(key, size, bare_etag(etag), int(modified.timestamp()) * 1000)


def bare_etag(etag: str | None) -> str:
    """Return an ETag without quotes, and without the mark of a weak one, which proxies add."""
    return (etag or "").removeprefix("W/").strip('"')


def time_of(text: str) -> datetime:
    """Parse a time as botocore does, but faster for the form of S3's listings, such as 2026-01-31T12:00:00.000Z."""
    from botocore.utils import parse_timestamp

    if text.endswith("Z"):
        with suppress(ValueError):
            return datetime.fromisoformat(f"{text[:-1]}+00:00")
    parsed: datetime = parse_timestamp(text)
    return parsed


def _bounded(parts: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > MOST_PAGE_BYTES:
            raise TransientError(f"the endpoint answered more than {MOST_PAGE_BYTES} bytes instead of a listing")
        yield part


@cache
def _listing_client(config: S3ConnectionConfig, _process_id: int) -> Any:
    """Return a client of boto3 that gives the body of a listing under ``_WHOLE``, and reads no more than its bound."""
    from botocore.exceptions import HTTPClientError
    from botocore.httpsession import URLLib3Session
    from botocore.utils import get_environ_proxies
    from urllib3.exceptions import HTTPError

    client = config.new_client()
    settings = client.meta.config
    session = URLLib3Session(
        verify=config.trusted(),
        proxies=get_environ_proxies(client.meta.endpoint_url),
        timeout=(settings.connect_timeout, settings.read_timeout),
        max_pool_connections=settings.max_pool_connections,
    )

    def send(request: Any, **_: object) -> Any:
        request.stream_output = True  # otherwise the session reads the body
        answer = session.send(request)
        try:
            body = b"".join(_bounded(answer.raw.stream()))
        except HTTPError as problem:
            raise HTTPClientError(error=problem) from None
        finally:
            answer.raw.close()
        answer.raw = SimpleNamespace(stream=lambda: [body])
        return answer

    def take(response_dict: Any, customized_response_dict: Any, **_: object) -> None:
        if response_dict["status_code"] == HTTPStatus.OK:
            customized_response_dict[_WHOLE], response_dict["body"] = response_dict["body"], b""

    client.meta.events.register("before-send.s3.ListObjectsV2", send)
    client.meta.events.register("before-parse.s3.ListObjectsV2", take)
    atexit.register(session.close)
    atexit.register(client.close)
    return client


def _parsed(body: bytes) -> Page:
    try:
        root = ET.fromstring(body)  # noqa: S314 - expat bounds entities
    except ET.ParseError:
        raise _not_a_listing() from None
    top = _texts(root)
    is_encoded = top.get("EncodingType") == "url"

    def name(text: str) -> str:
        return unquote_plus(text) if is_encoded else text

    listed, folders = [], []
    try:
        if _tag(root) != _ROOT:
            raise _not_a_listing()
        for child in root:
            tag = _tag(child)
            if tag == "Contents":
                entry = _texts(child)
                key, size, modified = name(entry["Key"]), int(entry["Size"]), time_of(entry["LastModified"])
                found = s3_object(key, size, entry.get("ETag"), modified)
                listed.append(Listed(found, entry.get("StorageClass", "")))
            elif tag == "CommonPrefixes":
                folders.append(name(_texts(child)["Prefix"]))
        is_cut = {"true": True, "false": False}[top["IsTruncated"].strip().lower()]
    except (KeyError, ValueError):
        raise _not_a_listing() from None
    return Page(listed, folders, top.get("NextContinuationToken", "") if is_cut else None)


def _not_a_listing() -> TransientError:
    return TransientError("the endpoint answered 200, but with no listing")


def _texts(element: ET.Element) -> dict[str, str]:
    return {_tag(child): child.text or "" for child in element}


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
