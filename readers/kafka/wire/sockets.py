"""Opens TCP connections to brokers; the addresses of a name share the time until a deadline.

kafka-python's own way (``kafka.net``, as of 3.0) lets the first address take all the time, and Python's
``socket.create_connection`` gives each of them the whole of it.
"""

from __future__ import annotations

import socket
from typing import Any

from tidegate.readers.kafka.wire.frames import remaining_s

SOCKET_OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))


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
