"""A proxy before an S3 endpoint that counts requests and bytes, and changes nothing."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

from typing_extensions import Self

# A request that only reads has no body, so all that clients send are lines of headers.
_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) ([^ ]*) HTTP/1\.1\r\n")
_PIECE_BYTES = 1 << 18


class RequestCounter:
    """Forwards connections to a server; use it as a context manager.

    requests: how many there were, by method; ``LIST`` are those that list objects.  Right for
        requests without a body.
    received_bytes: the bytes of the server's responses, with headers.
    """

    def __init__(self, target: str) -> None:
        url = urlsplit(target)
        self._target = (str(url.hostname), int(url.port or 80))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.requests: Counter[str] = Counter()
        self.received_bytes = 0

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def reset(self) -> None:
        """Count from 0 again."""
        with self._lock:
            self.requests = Counter()
            self.received_bytes = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            sockets = [self._listener, *self._open]
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                with self._lock:
                    self._open |= {client, server}
                for way in (self._upwards, self._downwards):
                    threading.Thread(target=way, args=(client, server), daemon=True).start()

    def _upwards(self, client: socket.socket, server: socket.socket) -> None:
        head = b""
        with suppress(OSError):
            while piece := client.recv(_PIECE_BYTES):
                # A request is counted once all its headers are there.
                *heads, head = (head + piece).split(b"\r\n\r\n")
                with self._lock:
                    self.requests.update(map(_kind, heads))
                server.sendall(piece)
            server.shutdown(socket.SHUT_WR)

    def _downwards(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while piece := server.recv(_PIECE_BYTES):
                with self._lock:
                    self.received_bytes += len(piece)
                client.sendall(piece)
        with self._lock:
            self._open -= {client, server}
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _kind(head: bytes) -> str:
    match = _REQUEST.match(head)
    if match is None:
        return "other"
    return "LIST" if b"list-type=" in match[2] else match[1].decode()
