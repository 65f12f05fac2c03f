"""Messages between two processes of one machine: a small Python value and bytes, over a pair of sockets."""

from __future__ import annotations

import pickle
import select
import socket
import struct
from typing import Any

__all__ = ["Channel"]

_LENGTHS = struct.Struct("<IQ")  # of the value and of the bytes


class Channel:
    """One end.  Of each direction one thread at a time may make use.

    Either process trusts the other: values are pickled.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._arrivals = select.poll()
        self._arrivals.register(end, select.POLLIN)

    def send(self, value: Any, data: bytes | memoryview = b"") -> None:
        """Send a message; raises OSError when the other process is gone."""
        pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        size = memoryview(data).nbytes
        head = _LENGTHS.pack(len(pickled), size) + pickled
        if size <= 1 << 16:
            self._socket.sendall(head + bytes(data))
        else:
            self._socket.sendall(head)
            self._socket.sendall(data)

    def arrives(self, timeout_s: float) -> bool:
        """Wait until there is a message, or the other process is gone; tell whether that came to be in time."""
        return bool(self._arrivals.poll(timeout_s * 1000))

    def receive(self) -> tuple[Any, bytes]:
        """Return the next message; raises EOFError, or OSError, when the other process is gone."""
        lengths = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        pickled, data = (self._exactly(length) for length in lengths)
        return pickle.loads(pickled), data  # noqa: S301 - of our own process

    def close(self) -> None:
        """Let the other process know that nothing comes any more."""
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
