"""S3 endpoints that fail as a test tells them to, or that differ from S3."""

import hashlib
import http.client
import random
import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.servers.stub import QuietServer, serving, stub
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore

FAULTS = (500, 503, "cut", "reset", "lost", "slow")
NOT_HANDED_ON = {"connection", "transfer-encoding", "date", "server"}


class Faults(BaseHTTPRequestHandler):
    """Hands requests on to the real endpoint, after the faults that the server names.

    A number: the response has this status.  silent: nothing comes for long.  reset: nothing comes.
    lost: nothing comes, but the endpoint has done the work.  slow: the response takes its time.
    cut: half of its body comes.  trickle: its body comes a byte at a time.
    no length: its status is 200, without the length or the range; not of HEAD.
    """

    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds for which an idle connection is kept
    disable_nagle_algorithm = True  # otherwise the body waits for 40 ms until the client has acknowledged the headers

    def _answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.signed.append(self.headers.get("Authorization", ""))
        fault = self.server.next_fault()
        if fault == "no length" and self.command == "HEAD":
            fault = None
        if isinstance(fault, int):
            self.send_response(fault)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.close_connection = fault not in {None, "slow"}
        if fault in {"silent", "slow"}:
            self.server.over.wait(60 if fault == "silent" else self.server.slow_s)
        if fault in {"silent", "reset"}:
            return
        status, headers, answer = self._ask(body)
        if fault == "lost":
            return
        left_out = NOT_HANDED_ON | ({"content-length", "content-range"} if fault == "no length" else set())
        self.send_response(200 if fault == "no length" else status)
        for name, value in headers:
            if name.lower() not in left_out:
                self.send_header(name, value)
        self.end_headers()
        for part in [answer[at : at + 1] for at in range(len(answer))] if fault == "trickle" else [answer]:
            if fault == "trickle" and self.server.over.wait(0.01):
                return
            self.wfile.write(part[: len(part) // 2] if fault == "cut" else part)

    def _ask(self, body):
        # The signature covers the headers that came, Host among them.
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        with closing(http.client.HTTPConnection(self.server.real, timeout=60)) as connection:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            body = answer.read()
            if self.command == "GET" and "list-type=" not in self.path:
                self.server.got.append(len(body))
            length = [] if answer.getheader("Content-Length") else [("Content-Length", str(len(body)))]
            return answer.status, [*answer.getheaders(), *length], body

    do_GET = do_PUT = do_HEAD = do_DELETE = _answer  # noqa: N815 - the base class's names

    def log_message(self, *_):
        pass


class FaultyEndpoint(QuietServer):
    """A server before the endpoint ``real``.

    faults: those of the next requests, in this order.
    share, kinds: after them, the share of requests that fail, and their faults; both may be changed at any time.
    sent: how often each fault was sent; None: none.
    signed: the authorization of each request.
    got: the bytes of each answer to a GET of an object.
    """

    def __init__(self, real, *faults, share=0.0, kinds=FAULTS, seed=0, slow_s=0.3):
        super().__init__(("127.0.0.1", 0), Faults)
        self.real, self.faults, self.slow_s = real.removeprefix("http://"), list(faults), slow_s
        self.share, self.kinds, self.dice = share, kinds, random.Random(seed)
        self.over, self.lock, self.sent = threading.Event(), threading.Lock(), Counter()
        self.signed, self.got = [], []

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def requests(self):
        return self.sent.total()

    def next_fault(self):
        with self.lock:
            fault = self.dice.choice(self.kinds) if self.dice.random() < self.share else None
            fault = self.faults.pop(0) if self.faults else fault
            self.sent[fault] += 1
            return fault


@contextmanager
def faulty(server, *faults, **settings):
    """Serve before a server of S3, as ``FaultyEndpoint``."""
    with serving(FaultyEndpoint(server.endpoint, *faults, **settings)) as proxy:
        try:
            yield proxy
        finally:
            proxy.over.set()


def through(proxy, config, deadline_s=20):
    endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    return ObjectStore(replace(config, endpoint=endpoint, deadline_s=deadline_s), "data")


def proxied(monkeypatch):
    """Let each endpoint be its own proxy, so that boto3's client sends the requests."""
    for user in ("utils", "endpoint"):
        monkeypatch.setattr(f"botocore.{user}.get_environ_proxies", lambda url: {"http": url})


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
