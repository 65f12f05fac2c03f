"""Sends messages between two processes of one machine over two sockets: a head, and bytes."""

from __future__ import annotations

import select
import socket
import struct
import sys

__all__ = ["Channel", "MalformedMessageError"]

MOST_HEAD_BYTES = 64 << 20
_LENGTHS = struct.Struct("<IQ")  # of the head and of the bytes
_TIME = struct.Struct("@ll")  # seconds and microseconds, as the system has them


class MalformedMessageError(Exception):
    """The other process sent no message of its own: something overwrote its memory."""


class Channel:
    """One end.  Each direction takes one thread at a time.

    patience_s: how long a message may stall; None: forever.
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
        """Send a message; raises OSError when the other process is gone, BlockingIOError when patience is over."""
        size = memoryview(data).nbytes
        begin = _LENGTHS.pack(len(head), size) + head
        if size <= 1 << 16:
            self._socket.sendall(begin + bytes(data))
        else:
            self._socket.sendall(begin)
            self._socket.sendall(data)

    def arrives(self, timeout_s: float) -> bool:
        """Wait until there is a message, or the other process is gone; tell whether that happened in time."""
        return bool(self._arrivals.poll(timeout_s * 1000))

    def receive(self, most_bytes: int = sys.maxsize) -> tuple[bytes, bytes]:
        """Return the next message; raises EOFError, or the errors of ``send``.

        Raises MalformedMessageError if it would have more bytes than ``most_bytes``, or a huge head.
        """
        head_bytes, data_bytes = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        if head_bytes > MOST_HEAD_BYTES or data_bytes > min(most_bytes, sys.maxsize):
            raise MalformedMessageError(f"it tells {head_bytes} and {data_bytes} bytes at once")
        return self._exactly(head_bytes), self._exactly(data_bytes)

    def close(self) -> None:
        """Tell the other process that nothing follows."""
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
