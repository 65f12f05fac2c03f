"""Receives source events in the planner process."""

from __future__ import annotations

import logging
import secrets
import socket
import socketserver
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any

from tidegate.readers.events.event import (
    NONCE_BYTES,
    TAKEN,
    EventChannel,
    Receive,
    SourceEvent,
    read_login,
    read_message,
)

_LOG = logging.getLogger("tidegate.planner")
_LOGIN_S = 1.0  # for the proof that a client has the token, because a stranger may connect and stay silent
_MESSAGE_S = 5.0  # for the events of such a client
_TOKEN_BYTES = 32
_MOST_CONNECTIONS = 64  # at once; others wait
_MOST_SILENT = 32  # of them without that proof, from one address; the oldest is closed when one more comes
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
        self._slots, self._warnings = Semaphore(_MOST_CONNECTIONS), 0
        self._silent: dict[str, list[socket.socket]] = {}  # by address, the oldest first
        self._lock = Lock()
        self.address_family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
        super().__init__((address, 0), _Connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Register a connection, once fewer than the maximum are open."""
        with self._lock:
            silent = self._silent.setdefault(client_address[0], [])
            if len(silent) >= _MOST_SILENT:
                with suppress(OSError):
                    silent.pop(0).shutdown(socket.SHUT_RDWR)  # its thread closes it
            silent.append(request)
        self._slots.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Unregister a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.heard(request, client_address[0])
            self._slots.release()

    def heard(self, request: socket.socket, address: str) -> None:
        """Note that a connection has proved that it has the token, or that it is over."""
        with self._lock:
            others = [one for one in self._silent.pop(address, []) if one is not request]
            if others:
                self._silent[address] = others

    def refused(self, client: str, error: Exception) -> None:
        """Log a connection without an event.  A stranger must not be able to fill the log."""
        self._warnings += 1
        level = logging.WARNING if self._warnings <= _MOST_WARNINGS else logging.DEBUG
        _LOG.log(level, "a connection from %s sends no source event: %s", client, error)


class _Connection(socketserver.BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        nonce, token, client = secrets.token_bytes(NONCE_BYTES), self.server.token, str(self.client_address[0])
        try:
            self.request.settimeout(_LOGIN_S)
            self.request.sendall(nonce)
            read_login(token, nonce, self._receive_within(_LOGIN_S))
            self.server.heard(self.request, client)
            events = read_message(token, nonce, self._receive_within(_MESSAGE_S))
            self.server.hear(events)
            for event in events:
                self.server.events.put(event)
            self.request.sendall(TAKEN)
        except (OSError, EOFError, ValueError, TypeError) as error:
            self.server.refused(client, error)

    def _receive_within(self, seconds: float) -> Receive:
        """Return a function that receives bytes, all of its calls together within this time."""
        deadline_s = time.monotonic() + seconds

        def receive(size: int) -> bytes:
            data = bytearray()
            while len(data) < size:
                self.request.settimeout(max(0.001, deadline_s - time.monotonic()))
                part = self.request.recv(min(size - len(data), 1 << 16))
                if not part:
                    raise EOFError(f"it ends after {len(data)} of {size} bytes")
                data += part
            return bytes(data)

        return receive
