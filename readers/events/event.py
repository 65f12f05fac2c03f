"""A source event, and its way over a socket (FLIP-27: SourceEvent).

A message is its length, the HMAC of the rest, and the events as JSON.  Whoever has the token may send one; the answer
is one byte.  An event may come late, twice or never: it names the range that it tells of, and counts once.
"""

from __future__ import annotations

import hmac
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any

__all__ = ["TAKEN", "EventChannel", "SourceEvent", "message", "read_message"]

TAKEN = b"\x01"
_LENGTH = struct.Struct(">I")
_MOST_BYTES = 16 << 20
_DIGEST, _DIGEST_BYTES = "sha256", 32


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """What was found in a range of a split.

    said: JSON; of a watermark generator, what it says after the range.
    """

    split_id: str
    start: int
    end: int
    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventChannel:
    """Where events are taken.

    host, port: of the coordinator's process.
    token: who has it may send; it travels with the tasks of one run.
    """

    host: str
    port: int
    token: bytes = field(repr=False)


def message(token: bytes, events: Sequence[SourceEvent]) -> bytes:
    """Return the bytes that tell events."""
    body = json.dumps([[e.split_id, e.start, e.end, e.said] for e in events]).encode()
    return _LENGTH.pack(len(body)) + hmac.digest(token, body, _DIGEST) + body


def read_message(token: bytes, stream: BufferedIOBase) -> list[SourceEvent]:
    """Return the events that a stream tells.

    Raises PermissionError for one that does not have the token, EOFError for one that ends too early, ValueError
    for one that is none of ours.
    """
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > _MOST_BYTES:
        raise ValueError(f"a message of {length} bytes, more than {_MOST_BYTES}")
    digest = _exactly(stream, _DIGEST_BYTES)
    body = _exactly(stream, length)
    if not hmac.compare_digest(digest, hmac.digest(token, body, _DIGEST)):
        raise PermissionError("a message without the token")
    return [SourceEvent(str(split), int(start), int(end), said) for split, start, end, said in json.loads(body)]


def _exactly(stream: BufferedIOBase, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError(f"a message that ends after {len(found)} of {size} bytes")
    return found
