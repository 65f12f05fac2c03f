"""An S3 endpoint over objects in memory, which differs from S3 as far as a test wants."""

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.servers.stub import stub
from tidegate.readers.s3.config import S3ConnectionConfig

LISTING = "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{}</IsTruncated>{}</ListBucketResult>"
MODIFIED_S = 1_767_225_600
TOKEN = "secret-token"  # noqa: S105 - no such secret exists


@dataclass
class OddEndpoint:
    """A bucket ``odd``.

    objects: contents by their keys.
    order: sorts keys and folders, as a listing has them; a page has ``page_keys`` of them.
    repeats_folders: the last folder of a page is the first one of the next page, too.
    listed_etag, sent_etag: what a listing, and HEAD and GET, make of the ETag.
    classes: storage classes by keys.
    says: called with each request; it may return another answer, as ``stub`` takes it.
    requests: of each request the method, the key and the query.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    order: object = sorted
    page_keys: int = 1000
    repeats_folders: bool = False
    listed_etag: object = '"{}"'.format
    sent_etag: object = '"{}"'.format
    classes: dict[str, str] = field(default_factory=dict)
    says: object = lambda _: None
    requests: list = field(default_factory=list)
    url: str = ""

    @property
    def connection(self):
        """The fields by which a source finds the endpoint."""
        keys = {"access_key": "any", "secret_key": "any", "session_token": TOKEN}
        return {"endpoint": self.url, "region": "us-east-1", **keys}

    @property
    def config(self):
        return S3ConnectionConfig(**self.connection, deadline_s=20)

    def answer(self, request):
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        key = unquote(url.path.removeprefix("/odd").removeprefix("/"))
        self.requests.append((request.command, key, query))
        other = self.says(request)
        if other is not None:
            return other
        return self._listing(query) if "list-type" in query else self._object(key, request)

    def _listing(self, query):
        prefix, token = query.get("prefix", ""), int(query.get("continuation-token", 0))
        if "start-after" in query:
            return 501, b"<Error><Code>NotImplemented</Code></Error>"
        names, seen = [], set()
        for key in self.order([key for key in self.objects if key.startswith(prefix)]):
            head, slash, _ = key[len(prefix) :].partition("/")
            name = f"{prefix}{head}/" if slash and "delimiter" in query else key
            if name not in seen:
                names.append(name)
                seen.add(name)
        if "delimiter" in query:
            names = self.order(names)
        end = token + min(self.page_keys, int(query["max-keys"]))
        is_cut = end < len(names)
        page = names[token:end]
        again = is_cut and self.repeats_folders and page[-1].endswith("/") and len(page) > 1
        body = "".join(map(self._entry, page))
        if is_cut:
            body += f"<NextContinuationToken>{end - 1 if again else end}</NextContinuationToken>"
        return 200, LISTING.format(str(is_cut).lower(), body).encode()

    def _entry(self, name):
        if name.endswith("/"):
            return f"<CommonPrefixes><Prefix>{quote(name)}</Prefix></CommonPrefixes>"
        etag = escape(self.listed_etag(self._md5(name)))
        named = f"<StorageClass>{self.classes[name]}</StorageClass>" if name in self.classes else ""
        size = len(self.objects[name])
        return (
            f"<Contents><Key>{quote(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{etag}</ETag><Size>{size}</Size>{named}</Contents>"
        )

    def _object(self, key, request):
        if key not in self.objects:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>"
        if self.classes.get(key, "").startswith(("GLACIER", "DEEP")) and request.command == "GET":
            error = f"<Error><Code>InvalidObjectState</Code><StorageClass>{self.classes[key]}</StorageClass></Error>"
            return 403, error.encode()
        body, etag = self.objects[key], self.sent_etag(self._md5(key))
        headers = [("ETag", etag), ("Last-Modified", formatdate(MODIFIED_S, usegmt=True))]
        if request.command == "HEAD":
            return 200, body, *headers
        if request.headers.get("If-Match", etag) != etag:
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>"
        first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        part = body[first : last + 1]
        return 206, part, *headers, ("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(body)}")

    def _md5(self, key):
        return hashlib.md5(self.objects[key], usedforsecurity=False).hexdigest()


@contextmanager
def odd_endpoint(**quirks):
    """Serve such an endpoint."""
    endpoint = OddEndpoint(**quirks)
    with stub(endpoint.answer) as endpoint.url:
        yield endpoint
