"""An endpoint that hands requests on to the real one, and fails as a test tells it to."""

import http.client
import random
import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

from tests.support.servers.stub import QuietServer, serving
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
