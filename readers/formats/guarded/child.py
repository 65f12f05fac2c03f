"""The program of a decoder process, which calls formats whose libraries may end it.

It opens no connection.  Its parent reads and writes for the format.
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
from tidegate.readers.s3.store import ObjectStore

__all__ = ["OUT_OF_MEMORY", "main"]

IDLE_S = 60.0  # after this time without a call, the process ends, as idle workers of Spark do

WATCH_MS = 50
ASKED_FOR = 8  # a process may reserve so many times the memory that it may use
OUT_OF_MEMORY = 83
"""The exit code of a process that took too much memory."""


def main(calls: int, others: Sequence[int]) -> None:
    """Perform calls until the parent is gone.

    calls: the descriptor of the socket for calls.
    others: the descriptors of the sockets over which other threads request bytes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C in a terminal, the parent decides when this process ends
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.meta_path.insert(0, _NoPandas())
    watch = _MemoryGuard(calls)
    watch.start()
    channel = Channel(socket.socket(fileno=calls))
    spare: queue.LifoQueue[Channel] = queue.LifoQueue()
    for descriptor in others:
        spare.put(Channel(socket.socket(fileno=descriptor)))
    channel.send(packed(READY))
    with contextlib.suppress(EOFError, OSError):
        while channel.arrives(IDLE_S):
            head, ahead = channel.receive()
            # The parent made the pickle.
            number, bucket, pickled, most_bytes, busy_s, method, looks, writes = pickle.loads(head)  # noqa: S301
            watch.most_bytes = most_bytes
            _limit(resource.RLIMIT_DATA, ASKED_FOR * most_bytes)
            asking = _Asking(channel, spare, number, busy_s)
            results = _made(asking, bucket, pickled, method, looks, ahead, writes=writes)
            channel.send(_outcome(asking, merged(results) if method == "read" and len(looks) > 1 else results))


class _NoPandas(MetaPathFinder):
    """Keeps Arrow from importing pandas, which takes 50 MB, and longer than all other imports."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


class _Asking:
    """Sends the messages and the requests of a call to the parent.

    They have the number of the call, since threads may outlive it.
    """

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

    def write(self, name: str, data: bytes, records: int) -> None:
        self.ask(WRITE, name, records, data=data)

    def grant_time(self) -> None:
        """Grant this process ``busy_s`` more seconds of CPU; the system ends it after that."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + self._busy_s))


class _AskedStore(ObjectStore):
    """A store with the bytes of one object that came with a call; the parent reads all other bytes.

    number: the index of the look among those of the call.
    """

    def __init__(self, asking: _Asking, bucket: str, number: int, look: Look, ahead: bytes) -> None:
        super().__init__(None, bucket)  # type: ignore[arg-type]  # it connects to no endpoint
        self._asking, self._number, self._look, self._bytes = asking, number, look, ahead

    def fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        if obj != self._look.obj:
            raise ValueError(f"a call for {self._look.obj.key!r} requests {obj.key!r}")
        begin, ahead = self._look.begin, self._bytes
        if begin <= start and end <= begin + len(ahead):
            return ahead if (start, end) == (begin, begin + len(ahead)) else ahead[start - begin : end - begin]
        return self._asking.ask(FETCH, self._number, start, end)


@functools.lru_cache(maxsize=16)
def _format(pickled: bytes) -> Any:
    return pickle.loads(pickled)  # noqa: S301 - the parent made the pickle


def _made(
    asking: _Asking, bucket: str, pickled: bytes, method: str, looks: Sequence[Look], ahead: bytes, *, writes: bool
) -> Iterator[Any]:
    """Yield the results of a format's method for consecutive objects."""
    at = 0
    for number, look in enumerate(looks):
        store = _AskedStore(asking, bucket, number, look, ahead[at : at + look.size])
        at += look.size
        asking.grant_time()
        writing = (asking.write,) if writes else ()
        outcome = getattr(replace(_format(pickled), store=store), method)(*look.arguments, *writing)
        if hasattr(outcome, "__next__"):
            yield from outcome
        else:
            yield outcome


def _outcome(asking: _Asking, outputs: Iterator[Any]) -> bytes:
    """Send the batches among the results, and return a message with the other results."""
    results = []
    try:
        for output in outputs:
            if isinstance(output, pa.RecordBatch):
                asking.give(output)
            else:
                results.append(output)
        return packed(RETURNS, results)
    except Exception as problem:  # noqa: BLE001 - the parent raises it
        return packed(RAISES, *packed_error(problem))


class _MemoryGuard(threading.Thread):
    """Ends this process when its parent is gone, or when it takes more memory than a call may.

    Some libraries crash if memory is refused, and reserved memory that is not used is harmless.  So the resident memory
    counts.
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
    """Return the memory of this process in bytes; 0: unknown."""
    try:
        _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    except OSError:
        return 0
    return (resident - shared) * resource.getpagesize()


def _limit(resource_number: int, wanted: int) -> None:
    """Limit a resource; not every system enforces the limit."""
    _, most = resource.getrlimit(resource_number)
    wanted = min(wanted, sys.maxsize if most < 0 else most)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource_number, (wanted, most))
