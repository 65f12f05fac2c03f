"""Receives source events in the planner process."""

from __future__ import annotations

import logging
import secrets
import socket
import socketserver
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

from tidegate.readers.events.event import NONCE_BYTES, TAKEN, EventChannel, SourceEvent, read_message

_LOG = logging.getLogger("tidegate.planner")
_TOKEN_BYTES = 32
_MOST_WARNINGS = 10


class EventServer:
    """The coordinator's end of a channel, until ``close``.

    host: the name or address at which executors reach this machine.
    bind: the address to listen at; None: the host's.
    hear: is called with the events of each message, in threads, before its sender knows that they have arrived.

    Raises OSError if it cannot listen.
    """

    def __init__(
        self, host: str, bind: str | None = None, hear: Callable[[Sequence[SourceEvent]], object] = list
    ) -> None:
        self._events = SimpleQueue[SourceEvent]()
        self._came: list[SourceEvent] = []
        self._server = _Server(bind or host, secrets.token_bytes(_TOKEN_BYTES), self._events, hear)
        self.channel = EventChannel(host, self._server.server_address[1], self._server.token)
        self._thread = Thread(target=self._server.serve_forever, name="tidegate source events", daemon=True)
        self._thread.start()

    def take(self, about: str) -> list[SourceEvent]:
        """Return the events of one subject since the last call for that subject."""
        with suppress(Empty):
            while True:
                self._came.append(self._events.get_nowait())
        taken = [event for event in self._came if event.about == about]
        self._came = [event for event in self._came if event.about != about]
        return taken

    def close(self) -> None:
        """Stop listening.  May be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        address: str,
        token: bytes,
        events: SimpleQueue[SourceEvent],
        hear: Callable[[Sequence[SourceEvent]], object],
    ) -> None:
        self.token, self.events, self.hear = token, events, hear
        self._warnings = 0
        self.address_family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
        super().__init__((address, 0), _Connection)

    def refused(self, client: str, error: Exception) -> None:
        """Log a connection without an event.  A stranger must not be able to fill the log."""
        self._warnings += 1
        level = logging.WARNING if self._warnings <= _MOST_WARNINGS else logging.DEBUG
        _LOG.log(level, "a connection from %s sends no source event: %s", client, error)


class _Connection(socketserver.StreamRequestHandler):
    server: _Server
    timeout = 5.0  # because a stranger may connect and say nothing

    def handle(self) -> None:
        nonce, token = secrets.token_bytes(NONCE_BYTES), self.server.token
        try:
            self.request.sendall(nonce)
            events = read_message(token, nonce, self._receive)
            self.server.hear(events)
            for event in events:
                self.server.events.put(event)
            self.request.sendall(TAKEN)
        except (OSError, EOFError, ValueError, TypeError) as error:
            self.server.refused(str(self.client_address[0]), error)

    def _receive(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise EOFError(f"it ends after {len(data)} of {size} bytes")
        return data
