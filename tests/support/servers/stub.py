"""Servers whose answers a test gives: HTTP by a function, or bytes at once, slowly, without an end, or not at all."""

import json
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # the client hung up


@contextmanager
def serving(server):
    """Serve in a thread until the end; yield the server."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def stub(answer):
    """Serve what ``answer`` returns for a request; yield the address.

    It gets the handler, with ``path``, ``headers`` and ``body``, and returns the status and the content: bytes, or what
    becomes JSON.  Pairs of further headers may follow.
    """

    class Handler(BaseHTTPRequestHandler):
        def _answer(self):
            self.body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            status, content, *headers = answer(self)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in [("Content-Length", str(len(body))), *headers]:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_HEAD = _answer  # noqa: N815 - the base class's names

        def log_message(self, *_):
            pass

    with serving(QuietServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


class Listening(ThreadingTCPServer, ABC):
    """Listens at ``address`` while it is used as a context manager; at its end it waits for all clients."""

    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self.address = f"127.0.0.1:{self.server_address[1]}"

    @abstractmethod
    def serve(self, client):
        """Serve one client, in a thread of its own; an OSError ends it."""

    @abstractmethod
    def stop(self):
        """Let every ``serve`` end soon; no client comes any more."""

    def finish_request(self, client, _):
        with suppress(OSError):
            self.serve(client)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.stop()
        self.server_close()


SLOW_S = 0.05  # between bytes: a deadline that is shorter than a whole answer passes on any machine


class Answering(Listening):
    """Answers connections, and closes them.

    answers: those of the first connections; all others get the last one.  None: silence.
    slowly: a byte at a time.
    again: the answer is sent again and again.
    asked: what each connection sent first.
    """

    def __init__(self, *answers, slowly=False, again=False, tls=None):
        super().__init__()
        self._answers, self._slowly, self._again, self._tls = answers, slowly, again, tls
        self._over = threading.Event()
        self.asked = []

    def stop(self):
        self._over.set()

    def serve(self, client):
        with self._tls.wrap_socket(client, server_side=True) if self._tls else nullcontext(client) as side:
            answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
            self.asked.append(side.recv(1 << 16))
            if answer is None:
                self._over.wait()
                return
            for part in [answer[at : at + 1] for at in range(len(answer))] if self._slowly else [answer]:
                side.sendall(part)
                if self._slowly and self._over.wait(SLOW_S):
                    return
            while self._again and not self._over.wait(0.01):
                side.sendall(answer)
