"""Sends source events from an executor to the coordinator."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence

from tidegate.readers.events.event import NONCE_BYTES, TAKEN, EventChannel, SourceEvent, message

_LOG = logging.getLogger("tidegate.reader")
_TIMEOUT_S = 2.0
_PAUSE_S = 60.0  # for so long after a failure, no task of this worker tries again and waits for a firewall
_failed_at_s: dict[tuple[str, int], float] = {}


def send(channel: EventChannel, events: Sequence[SourceEvent]) -> bool:
    """Send events, and return whether the coordinator has taken them.  Called at the end of a task.

    Events that do not arrive change no result.  The coordinator then reads the rows itself for watermark generators,
    and bad records are not counted.
    """
    address = channel.host, channel.port
    if not events or time.monotonic() - _failed_at_s.get(address, -_PAUSE_S) < _PAUSE_S:
        return False
    try:
        with socket.create_connection(address, _TIMEOUT_S) as connection:
            connection.settimeout(_TIMEOUT_S)
            nonce = connection.recv(NONCE_BYTES, socket.MSG_WAITALL)
            connection.sendall(message(channel.token, nonce, events))
            taken = connection.recv(len(TAKEN)) == TAKEN
    except OSError as error:
        taken = False
        _LOG.warning(
            "the coordinator at %s:%d takes no source events: %s; it reads rows itself, and counts no bad records",
            *address,
            error,
        )
    if not taken:
        _failed_at_s[address] = time.monotonic()
    return taken
