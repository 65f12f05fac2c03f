"""A source event, its way over a socket (FLIP-27: SourceEvent), and the rows that a task reports by events.

The coordinator first sends a nonce.  A client sends a length, the HMAC of the nonce and the events by the token, and
the events as JSON.  The coordinator answers by one byte.

An event may come late, twice or never.  It names the batch, the split and the range of its report, and each range
counts once.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.alignment.generators import GeneratorRun, GeneratorSupplier, SplitWatermark, new_generator
from tidegate.errors import ContractError
from tidegate.readers.contract import ReadTask, SplitReader, SupportsEventTimes

_LOG = logging.getLogger("tidegate.reader")
_TIMEOUT_S = 2.0
_PAUSE_S = 60.0  # for so long after a failure, no task of this worker tries again and waits for a firewall
NONCE_BYTES = 32
TAKEN = b"\x01"
_LENGTH = struct.Struct(">I")
_MOST_BYTES = 16 << 20
_DIGEST, _DIGEST_BYTES = "sha256", 32

_failed_at_s: dict[tuple[str, int], float] = {}  # by address

WATERMARK = "watermark"
BAD_RECORDS = "bad records"

Receive: TypeAlias = Callable[[int], bytes]
"""Returns a number of bytes.  Raises OSError or EOFError if they do not arrive."""


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """A reader's report of a range of a split.

    report: as JSON.  A watermark generator reports its state after the range, and the numbers of all ``rows`` and of
        ``late`` ones.  A report of bad records has their ``number``.
    batch: the coordinator's number of the batch, in one run.
    """

    split_id: str
    start: int
    end: int
    report: Mapping[str, Any]
    about: str = WATERMARK
    batch: int = 0


@dataclass(frozen=True, slots=True)
class EventChannel:
    """The address that accepts events, and the token of a run, which travels with its tasks."""

    host: str
    port: int
    token: bytes = field(repr=False)


def message(token: bytes, nonce: bytes, events: Sequence[SourceEvent]) -> bytes:
    """Return the bytes of a message with events."""
    body = json.dumps([[e.split_id, e.start, e.end, e.report, e.about, e.batch] for e in events]).encode()
    return _LENGTH.pack(len(body)) + hmac.digest(token, nonce + body, _DIGEST) + body


def read_message(token: bytes, nonce: bytes, receive: Receive) -> list[SourceEvent]:
    """Return the events of a client's message.

    Raises PermissionError for a message without the token, ValueError for a malformed one, and the errors of
    ``receive``.
    """
    (length,) = _LENGTH.unpack(receive(_LENGTH.size))
    if length > _MOST_BYTES:
        raise ValueError(f"a message of {length} bytes, more than {_MOST_BYTES}")
    digest = receive(_DIGEST_BYTES)
    body = receive(length)
    if not hmac.compare_digest(digest, hmac.digest(token, nonce + body, _DIGEST)):
        raise PermissionError("a message without the token")
    return [_event(*event) for event in json.loads(body)]


def _event(split: object, start: Any, end: Any, report: Mapping[str, Any], about: object, batch: Any) -> SourceEvent:
    return SourceEvent(str(split), int(start), int(end), report, str(about), int(batch))


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


@dataclass(frozen=True, slots=True)
class Watching:
    """The input of a task's generators, besides rows.

    before: for each range, the last report of the split's generator before the range.
    batch: the coordinator's number of the batch.
    promised_ms: the source's watermark before the batch.
    """

    supplier: GeneratorSupplier
    before: tuple[SplitWatermark, ...]
    batch: int = 0
    promised_ms: int | None = None


def timed_reader(connector: str, reader: SplitReader) -> SupportsEventTimes:
    """Return a reader as one that gives event times.  Raises ContractError if it does not."""
    if not isinstance(reader, SupportsEventTimes):
        raise ContractError(f"the reader of {connector!r} has no read_timed(), which watermark generators need")
    return reader


def watched(
    reader: SupportsEventTimes, watching: Watching, task: ReadTask, events: list[SourceEvent]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; ``events`` receives the generator's report for each range after the last row."""
    runs = [GeneratorRun(new_generator(watching.supplier), before, watching.promised_ms) for before in watching.before]
    for timed in reader.read_timed(task):
        runs[timed.number].add(timed.rows, timed.event_times)
        if (delivered := timed.delivered).num_rows:
            yield delivered
    events += [
        SourceEvent(wanted.split_id, wanted.start, wanted.end, run.report(), batch=watching.batch)
        for wanted, run in zip(task.ranges, runs, strict=True)
    ]
