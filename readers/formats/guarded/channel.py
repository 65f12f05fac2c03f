"""Sends messages between two processes over a pair of sockets; a message is a head and bytes."""

from __future__ import annotations

import select
import socket
import struct
import sys

__all__ = ["Channel", "MalformedMessageError"]

MOST_HEAD_BYTES = 64 << 20
_LENGTHS = struct.Struct("<IQ")  # the lengths of the head and of the bytes
_TIME = struct.Struct("@ll")  # the system's timeval: seconds and microseconds


class MalformedMessageError(Exception):
    """The other process sent bytes that are no message: damaged data has overwritten its memory."""


class Channel:
    """One end of the connection.  Each direction takes one thread at a time.

    patience_s: the number of seconds that a message may stall; None: forever.
    """

    def __init__(self, end: socket.socket, patience_s: float | None = None) -> None:
        self._socket = end
        self._arrivals = select.poll()
        self._arrivals.register(end, select.POLLIN)
        if patience_s is not None:
            whole_s, rest_s = divmod(patience_s, 1)
            for direction in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
                end.setsockopt(socket.SOL_SOCKET, direction, _TIME.pack(int(whole_s), int(rest_s * 1e6)))

    def send(self, head: bytes, data: bytes | memoryview = b"") -> None:
        """Send a message.

        Raises OSError if the other process is gone, and BlockingIOError if the message stalls.
        """
        size = memoryview(data).nbytes
        begin = _LENGTHS.pack(len(head), size) + head
        if size <= 1 << 16:
            self._socket.sendall(begin + bytes(data))
        else:
            self._socket.sendall(begin)
            self._socket.sendall(data)

    def arrives(self, timeout_s: float) -> bool:
        """Wait until there is a message, or the other process is gone; return whether that happened in time."""
        return bool(self._arrivals.poll(timeout_s * 1000))

    def receive(self, most_bytes: int = sys.maxsize) -> tuple[bytes, bytes]:
        """Return the next message.

        Raises EOFError if the other process closed the connection, and the errors of ``send``.  Raises
        MalformedMessageError for more than ``most_bytes`` bytes, or a head of more than 64 MiB.
        """
        head_bytes, data_bytes = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        if head_bytes > MOST_HEAD_BYTES or data_bytes > min(most_bytes, sys.maxsize):
            raise MalformedMessageError(f"it announces {head_bytes} and {data_bytes} bytes at once")
        return self._exactly(head_bytes), self._exactly(data_bytes)

    def close(self) -> None:
        """Close the connection, so that the other process receives an end of file."""
        self._socket.close()

    def _exactly(self, length: int) -> bytes:
        part = self._socket.recv(length, socket.MSG_WAITALL) if length else b""
        if len(part) == length:
            return part
        parts = [part]
        left = length - len(part)
        while part and left:
            part = self._socket.recv(left, socket.MSG_WAITALL)
            parts.append(part)
            left -= len(part)
        if left:
            raise EOFError
        return b"".join(parts)
