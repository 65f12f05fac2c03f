"""Serves the page of the running queries to browsers on this machine."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tidegate.errors import OptionError
from tidegate.jobs.watch.page import CONTENT_POLICY, live_page
from tidegate.jobs.watch.sources import live_sources

__all__ = ["PORT", "page_server"]

PORT = 8377
_ADDRESS = "127.0.0.1"


class _Page(BaseHTTPRequestHandler):
    """Answers with the page.  It has no other path, so it serves no file."""

    server_version, sys_version = "tidegate", ""
    server: ThreadingHTTPServer
    timeout = 10  # of a browser that connects and asks for nothing

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self._hosts():
            # A page of another site whose name leads to this machine is no user of it.
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            now = datetime.fromtimestamp(time.time(), timezone.utc)
            self._answer(live_page(live_sources(with_hour=True), now).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, page: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(page))),
            ("Content-Security-Policy", CONTENT_POLICY),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)

    def _hosts(self) -> list[str]:
        return [f"{name}:{self.server.server_port}" for name in (_ADDRESS, "localhost")]


def page_server(port: int) -> ThreadingHTTPServer:
    """Return a server of the page at a port of 127.0.0.1; 0: any free one.  ``serve_forever`` serves it.

    Raises OptionError if the port is in use, or is not allowed.
    """
    try:
        server = ThreadingHTTPServer((_ADDRESS, port), _Page)
    except OSError as error:
        raise OptionError(f"--port is {port}, at which {_ADDRESS} cannot listen: {error.strerror}") from None
    server.daemon_threads = True
    return server
