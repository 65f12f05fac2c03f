"""The work of a decoder process: calls of formats whose libraries may end it.

It opens no connection: the process that started it is asked for what a format reads, and to write what it writes.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import queue
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.readers.arrow.merged_batches import merged
from tidegate.readers.formats.guarded.channel import Channel
from tidegate.readers.formats.guarded.messages import (
    BATCH,
    FETCH,
    IN_VAIN,
    RAISES,
    READY,
    RETURNS,
    WRITE,
    AskedInVain,
    Look,
    packed,
    packed_error,
)
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.address import S3Address
from tidegate.readers.s3.store import ObjectStore

__all__ = ["OUT_OF_MEMORY", "main"]

IDLE_S = 60.0  # without a call, it ends: as Spark's own idle workers do

WATCH_MS = 50
ASKED_FOR = 8  # times as much memory as may be used may be asked for
OUT_OF_MEMORY = 83
"""The status of a process that took too much."""


def main(calls: int, others: Sequence[int]) -> None:
    """Perform calls until the other process is gone.

    calls: the descriptor of the socket by which they come.
    others: of those by which other threads than this one ask for bytes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the other process knows what is to become of it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.meta_path.insert(0, _NoPandas())
    watch = _Watch(calls)
    watch.start()
    channel = Channel(socket.socket(fileno=calls))
    spare: queue.LifoQueue[Channel] = queue.LifoQueue()
    for each in others:
        spare.put(Channel(socket.socket(fileno=each)))
    channel.send(packed(READY))
    with contextlib.suppress(EOFError, OSError):
        while channel.arrives(IDLE_S):
            head, ahead = channel.receive()
            # Of the process that started this one.
            number, bucket, pickled, most_bytes, busy_s, method, looks = pickle.loads(head)  # noqa: S301
            watch.most_bytes = most_bytes
            _limit(resource.RLIMIT_DATA, ASKED_FOR * most_bytes)
            asking = _Asking(channel, spare, number, busy_s)
            made = _made(asking, bucket, pickled, method, looks, ahead)
            channel.send(_outcome(asking, merged(made) if method == "read" and len(looks) > 1 else made))


class _NoPandas(MetaPathFinder):
    """Keeps Arrow from importing pandas where it is there: that takes longer than all else, and 50 MB."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


class _Asking:
    """A call's words to the other process and its questions, by its number: threads may outlive the call."""

    def __init__(self, channel: Channel, spare: queue.LifoQueue[Channel], number: int, busy_s: float) -> None:
        self._channel, self._spare, self._number, self._busy_s = channel, spare, number, busy_s

    def give(self, batch: pa.RecordBatch) -> None:
        self._channel.send(packed(BATCH), memoryview(batch.serialize()))
        self.grant_time()

    def ask(self, kind: str, *question: Any, data: bytes = b"") -> bytes:
        is_calling = threading.current_thread() is threading.main_thread()
        channel = self._channel if is_calling else self._spare.get()
        try:
            channel.send(packed(kind, self._number, *question), data)
            answered, answer = channel.receive()
        finally:
            if not is_calling:
                self._spare.put(channel)
        self.grant_time()
        if answered == IN_VAIN:
            raise AskedInVain
        return answer

    def grant_time(self) -> None:
        """Let this process be busy for some time from now on; the system ends it after that."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + self._busy_s))


class _AskedStore(ObjectStore):
    """Has the bytes of one object that came with a call, and asks the other process for others, and to write.

    number: of the look, which says what object it is.
    """

    def __init__(self, asking: _Asking, bucket: str, number: int, look: Look, ahead: bytes) -> None:
        super().__init__(None, bucket)  # type: ignore[arg-type]  # it asks no endpoint
        self._asking, self._number, self._look, self._bytes = asking, number, look, ahead

    def fetch(self, found: S3Object, start: int, end: int) -> bytes:
        if found != self._look.found:
            raise ValueError(f"{found.key!r} is asked for in a look at {self._look.found.key!r}")
        begin, ahead = self._look.begin, self._bytes
        if begin <= start and end <= begin + len(ahead):
            return ahead if (start, end) == (begin, begin + len(ahead)) else ahead[start - begin : end - begin]
        return self._asking.ask(FETCH, self._number, start, end)

    def write(self, place: S3Address, data: bytes) -> None:
        self._asking.ask(WRITE, *place, data=data)


@functools.lru_cache(maxsize=16)
def _format(pickled: bytes) -> Any:
    return pickle.loads(pickled)  # noqa: S301 - of the process that started this one


def _made(
    asking: _Asking, bucket: str, pickled: bytes, method: str, looks: Sequence[Look], ahead: bytes
) -> Iterator[Any]:
    """Yield what a method of a format returns, or yields, of one object after the other."""
    at = 0
    for number, look in enumerate(looks):
        store = _AskedStore(asking, bucket, number, look, ahead[at : at + look.size])
        at += look.size
        asking.grant_time()
        made = getattr(replace(_format(pickled), store=store), method)(*look.arguments)
        if hasattr(made, "__next__"):
            yield from made
        else:
            yield made


def _outcome(asking: _Asking, made: Iterator[Any]) -> bytes:
    """Give the batches among what is made, and return what is left to say: all else that is."""
    results = []
    try:
        for each in made:
            if isinstance(each, pa.RecordBatch):
                asking.give(each)
            else:
                results.append(each)
        return packed(RETURNS, results)
    except Exception as problem:  # noqa: BLE001 - whoever asked raises it
        return packed(RAISES, *packed_error(problem))


class _Watch(threading.Thread):
    """Ends this process when the other one is gone, or when it has more memory than a call may take.

    Not all libraries outlive being refused memory, and to ask for much and use little of it is harmless.  So what
    counts is the resident memory.
    """

    def __init__(self, calls: int) -> None:
        super().__init__(daemon=True)
        self._hanging_up = select.poll()
        self._hanging_up.register(calls, 0)
        self._empty_bytes = _resident_bytes()
        self.most_bytes = sys.maxsize

    def run(self) -> None:
        while not self._hanging_up.poll(WATCH_MS):
            if _resident_bytes() - self._empty_bytes > self.most_bytes:
                os._exit(OUT_OF_MEMORY)
        os._exit(0)


def _resident_bytes() -> int:
    """Return how much memory this process has of its own; 0 where that is not known."""
    try:
        _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    except OSError:
        return 0
    return (resident - shared) * resource.getpagesize()


def _limit(resource_number: int, wanted: int) -> None:
    """Let no more of something be asked for than this; not every system heeds it."""
    _, most = resource.getrlimit(resource_number)
    wanted = min(wanted, sys.maxsize if most < 0 else most)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource_number, (wanted, most))
