"""What runs in a decoder process: calls of formats whose libraries may end it.

It opens no connection: the process that started it is asked for what a format reads, and to write what it writes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import queue
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.readers.merged_batches import merged
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.objects import S3Object
from tidegate.readers.process_channel import Channel
from tidegate.readers.s3_address import S3Address

__all__ = ["BATCH", "FETCH", "OUT_OF_MEMORY", "RAISES", "READY", "RETURNS", "WRITE", "AskedInVain", "Look", "main"]

IDLE_S = 60.0  # without a call, it ends: as Spark's own idle workers do

WATCH_MS = 50
ASKED_FOR = 8  # times as much memory as may be used may be asked for
OUT_OF_MEMORY = 83
"""The status of a process that took too much."""

READY, FETCH, WRITE, BATCH, RETURNS, RAISES = "ready", "fetch", "write", "batch", "returns", "raises"
"""What a message of this process is about."""

Look: TypeAlias = "tuple[tuple[Any, ...], int, int]"
"""Of a call that is made for an object: the arguments, a position in the object, and how many bytes of it come
with the call from there on."""


class AskedInVain(Exception):  # noqa: N818 - it never leaves these two processes
    """The other process could not fetch, or write; it knows why."""


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
    store = _AskedStore(channel, spare)
    channel.send((READY,))
    with contextlib.suppress(EOFError, OSError):
        while channel.arrives(IDLE_S):
            (bucket, pickled, most_bytes, method, looks), ahead = channel.receive()
            store.bucket = bucket
            watch.most_bytes = most_bytes
            _limit(ASKED_FOR * most_bytes)
            made = _made(store, getattr(_format(pickled, store), method), looks, ahead)
            channel.send(_outcome(channel, merged(made) if method == "read" and len(looks) > 1 else made))


class _NoPandas(MetaPathFinder):
    """Keeps Arrow from importing pandas where it is there: that takes longer than all else, and 50 MB."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


class _AskedStore(ObjectStore):
    """Asks the other process for bytes, and to write.

    ahead: a position in the object that a call is about, and its bytes from there on, which came with the call.
    """

    ahead: tuple[int, bytes]

    def __init__(self, channel: Channel, spare: queue.LifoQueue[Channel]) -> None:
        super().__init__(None, "")  # type: ignore[arg-type]  # it asks no endpoint
        self._channel, self._spare = channel, spare

    def fetch(self, found: S3Object, start: int, end: int) -> bytes:
        begin, ahead = self.ahead
        if begin <= start and end <= begin + len(ahead):
            return ahead if (start, end) == (begin, begin + len(ahead)) else ahead[start - begin : end - begin]
        return self._asked((FETCH, found, start, end))

    def write(self, place: S3Address, data: bytes) -> None:
        self._asked((WRITE, place), data)

    def _asked(self, question: tuple[Any, ...], data: bytes = b"") -> bytes:
        is_calling = threading.current_thread() is threading.main_thread()
        channel = self._channel if is_calling else self._spare.get()
        try:
            channel.send(question, data)
            answered, answer = channel.receive()
        finally:
            if not is_calling:
                self._spare.put(channel)
        if not answered:
            raise AskedInVain
        return answer


@functools.lru_cache(maxsize=16)
def _format(pickled: bytes, store: ObjectStore) -> Any:
    return replace(pickle.loads(pickled), store=store)  # noqa: S301 - of the process that started this one


def _made(store: _AskedStore, method: Callable[..., Any], looks: Sequence[Look], ahead: bytes) -> Iterator[Any]:
    """Yield what a method returns, or yields, of one object after the other."""
    at = 0
    for arguments, begin, size in looks:
        store.ahead = begin, ahead[at : at + size]
        at += size
        made = method(*arguments)
        if hasattr(made, "__next__"):
            yield from made
        else:
            yield made


def _outcome(channel: Channel, made: Iterator[Any]) -> tuple[str, Any]:
    """Send the batches among what is made, and return what is left to say: all else that is."""
    results = []
    try:
        for each in made:
            if isinstance(each, pa.RecordBatch):
                channel.send((BATCH,), memoryview(each.serialize()))
            else:
                results.append(each)
    except Exception as problem:  # noqa: BLE001 - whoever asked raises it
        return RAISES, _portable(problem)
    return RETURNS, results


def _portable(problem: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(problem))  # noqa: S301 - its own
    except Exception:  # noqa: BLE001 - any class may refuse
        return RuntimeError(f"{type(problem).__name__}: {problem}")
    return problem


class _Watch(threading.Thread):
    """Ends this process when the other one is gone, or when it has more memory than a call may take.

    Not all libraries outlive being refused memory, and to ask for much and use little of it is harmless; so what
    counts is what is resident.
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


def _limit(data_bytes: int) -> None:
    """Let no more memory be asked for than this; not every system heeds it."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes if most < 0 else min(data_bytes, most), most))
