"""Takes source events in the planner's process."""

from __future__ import annotations

import logging
import secrets
import socketserver
from queue import Empty, SimpleQueue
from threading import Thread

from tidegate.readers.events.event import TAKEN, EventChannel, SourceEvent, read_message

__all__ = ["EventServer"]

_LOG = logging.getLogger("tidegate.planner")
_TIMEOUT_S = 5.0  # for a stranger who connects and says nothing
_TOKEN_BYTES = 32


class EventServer:
    """The coordinator's end of a channel, until ``close``.

    host: a name or address of this machine by which executors reach it.
    bind: the address to listen at; None: the host's.

    Raises OSError when it cannot listen.
    """

    def __init__(self, host: str, bind: str | None = None) -> None:
        token, events = secrets.token_bytes(_TOKEN_BYTES), SimpleQueue[SourceEvent]()

        class Handler(socketserver.StreamRequestHandler):
            timeout = _TIMEOUT_S

            def handle(self) -> None:
                try:
                    told = read_message(token, self.rfile)
                except (OSError, EOFError, ValueError, TypeError) as error:
                    _LOG.warning("a connection from %s tells no source event: %s", self.client_address[0], error)
                    return
                for event in told:
                    events.put(event)
                self.wfile.write(TAKEN)

        self._events = events
        self._server = _Server((bind or host, 0), Handler)
        self.channel = EventChannel(host, self._server.server_address[1], token)
        self._thread = Thread(target=self._server.serve_forever, name="tidegate source events", daemon=True)
        self._thread.start()

    def take(self) -> list[SourceEvent]:
        """Return the events that came since the last call."""
        taken = []
        try:
            while True:
                taken.append(self._events.get_nowait())
        except Empty:
            return taken

    def close(self) -> None:
        """Listen no longer.  May be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
