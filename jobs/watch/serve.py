"""Serves the page of the running queries to browsers on this machine."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tidegate.enumerators.notes.progress import SAMPLE_S
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import ConnectorError, OptionError
from tidegate.jobs.watch.page import CONTENT_POLICY, live_page
from tidegate.jobs.watch.sources import LiveSource

_ADDRESS = "127.0.0.1"
_SAMPLE = timedelta(seconds=SAMPLE_S)


class PageServer(ThreadingHTTPServer):
    """A server of the page at a port of 127.0.0.1; 0: any free one.  ``serve_forever`` serves it.

    find: returns the sources, with their last hours; called for each answer.

    Raises OptionError if the port is in use, or is not allowed.
    """

    daemon_threads = True

    def __init__(self, port: int, find: Callable[[], Sequence[LiveSource]]) -> None:
        self.find = find
        try:
            super().__init__((_ADDRESS, port), _Page)
        except OSError as error:
            raise OptionError(f"--port is {port}, at which {_ADDRESS} cannot listen: {error.strerror}") from None


class _Page(BaseHTTPRequestHandler):
    """Answers with the page.  It has no other path, so it serves no file."""

    server_version, sys_version = "tidegate", ""
    server: PageServer
    timeout = 10  # of a browser that connects and asks for nothing

    def do_GET(self) -> None:
        if self.headers.get("Host") not in {f"{name}:{self.server.server_port}" for name in (_ADDRESS, "localhost")}:
            # A page of another site whose name leads to this machine is no user of it.
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            now = datetime.fromtimestamp(time.time(), timezone.utc)
            try:
                page = live_page(self.server.find(), now)
            except ConnectorError:  # a bucket does not answer now
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            else:
                self._answer(page.encode())

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


def with_hours(find: Callable[[], Sequence[LiveSource]]) -> Callable[[], list[LiveSource]]:
    """Return a call that adds to each source the plans that earlier calls found, those of an hour at most."""
    kept: dict[tuple[str, str], deque[tuple[datetime, SourceProgress]]] = {}

    def found() -> list[LiveSource]:
        sources = []
        for source in find():
            hour = kept.setdefault((source.application, source.planner), deque(maxlen=3600 // SAMPLE_S))
            if not hour or source.heard_at - hour[-1][0] >= _SAMPLE:
                hour.append((source.heard_at, source.progress))
            sources.append(replace(source, hour=tuple(hour)))
        return sources

    return found
