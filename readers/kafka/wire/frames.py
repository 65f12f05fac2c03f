"""Connects to brokers, and sends and receives frames of Kafka's protocol, each as a whole before a deadline.

A frame is a length and as many bytes.  kafka-python's own way to connect (``kafka.net``, as of 3.0) lets the first
address of a name take all the time, and Python's ``socket.create_connection`` gives each of them the whole of it.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

LARGEST_FRAME = 100_000_000
SMALLEST_BUFFER = 64 << 10
LENGTH = struct.Struct(">i")
SOCKET_OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))


class FrameTooLargeError(Exception):
    """The other side announced a larger frame than allowed; no memory was allocated for it."""


class FrameSocket:
    """Sends and receives whole frames; not thread-safe.

    sock: connected, and closed with this.
    largest: the maximum number of bytes in a received frame.

    A deadline is a time of ``time.monotonic()`` for the whole of a call, however slowly bytes come.
    """

    def __init__(self, sock: socket.socket, largest: int = LARGEST_FRAME) -> None:
        self._socket = sock
        self._largest = largest
        self._buffer = memoryview(bytearray(SMALLEST_BUFFER))

    def send(self, frame: bytes, deadline: float) -> None:
        """Send a frame that begins with its length.  Raises OSError."""
        self._socket.settimeout(remaining_s(deadline))
        self._socket.sendall(frame)

    def receive(self, deadline: float) -> memoryview:
        """Return the next frame without its length; the bytes are valid until the next call.

        Raises FrameTooLargeError, and OSError for any other failure: TimeoutError when the deadline has passed.
        """
        self._fill(self._buffer[: LENGTH.size], deadline, "")
        (size,) = LENGTH.unpack_from(self._buffer)
        if size < LENGTH.size:  # every response has a correlation id
            raise ConnectionAbortedError(f"it sent a frame of {size} bytes")
        if size > self._largest:
            raise FrameTooLargeError(f"it announced a frame of {size} bytes, but at most {self._largest} are taken")
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        frame = self._buffer[:size]
        self._fill(frame, deadline, f"of the {size} ")
        return frame

    def fileno(self) -> int:
        """Return the socket's file descriptor, -1 once it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket; may be called again."""
        self._socket.close()

    def _fill(self, part: memoryview, deadline: float, out_of: str) -> None:
        size = len(part)
        try:
            while part:
                self._socket.settimeout(remaining_s(deadline))
                received = self._socket.recv_into(part)
                if not received:
                    raise ConnectionResetError("it closed the connection")
                part = part[received:]
        except TimeoutError:
            if len(part) == size and not out_of:
                raise TimeoutError("it does not answer") from None
            raise TimeoutError(f"it sent only {size - len(part)} {out_of}bytes of its answer in time") from None


def remaining_s(deadline: float) -> float:
    """Return the seconds until a deadline as a socket's time-out.  Raises TimeoutError when it has passed."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("it does not answer")
    return remaining


def connected(host: str, port: int, deadline: float) -> socket.socket:
    """Return a TCP connection to a broker.

    deadline: a time of ``time.monotonic()``.

    Raises OSError.
    """
    failed = OSError("its name is not known")
    targets = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, target in enumerate(targets):
        share_s = remaining_s(deadline) / (len(targets) - number)
        try:
            return _connected_to(target, share_s)
        except OSError as error:
            failed = error
    raise failed


def _connected_to(target: tuple[Any, ...], timeout_s: float) -> socket.socket:
    family, kind, protocol, _, address = target
    sock = socket.socket(family, kind, protocol)
    try:
        for option in SOCKET_OPTIONS:
            sock.setsockopt(*option)
        sock.settimeout(timeout_s)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock
