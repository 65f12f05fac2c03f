"""An HTTP server whose answers a test gives."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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
