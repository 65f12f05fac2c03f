"""The program of a decoder process, which calls formats whose libraries may end it."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.abc import MetaPathFinder
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.readers.arrow.merged_batches import merged
from tidegate.readers.formats.typed_format import TypedFormat
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.store import ObjectStore

__all__ = ["BATCH", "OUT_OF_MEMORY", "RAISES", "RETURNS", "WRITE", "Call", "Look", "main"]

IDLE_S = 60.0  # after this time without a call, the process ends, as idle workers of Spark do
WATCH_MS = 50
OUT_OF_MEMORY = 83
"""The exit code of a process that took too much memory."""

WRITE, BATCH, RETURNS, RAISES = "write", "batch", "returns", "raises"
"""The subjects of the messages about a call; the bytes of a batch follow BATCH."""


class Look(NamedTuple):
    """An object that a call reads, and the part of it that the parent has fetched.

    arguments: the arguments of the method.
    begin: the offset of the part in the object.
    """

    obj: S3Object
    arguments: tuple[Any, ...]
    begin: int
    part: bytes


class Call(NamedTuple):
    """A call of a format's method, for one or several objects.

    method: the name of the method.
    most_bytes: the maximum memory of the process, in bytes.
    busy_s, silent_s: the maximum CPU time and the maximum time without a message or an answered fetch, in seconds.
    writes: whether the method writes files of bad records.
    """

    inner: TypedFormat
    method: str
    looks: Sequence[Look]
    most_bytes: int
    busy_s: int
    silent_s: int
    writes: bool


def main(descriptor: int) -> None:
    """Perform calls until the parent is gone, or has sent none for IDLE_S.

    descriptor: the descriptor of the connection to the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C in a terminal, the parent decides when this process ends
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.meta_path.insert(0, _NoPandas())
    watch, limits = _Watch(descriptor), _Limits()
    watch.start()
    connection = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):
        connection.send(None)  # it has started
        while connection.poll(IDLE_S):
            call: Call = connection.recv()
            watch.most_bytes = call.most_bytes
            with limits.applied(call):
                _Performance(connection, call, limits).perform()


class _NoPandas(MetaPathFinder):
    """Keeps Arrow from importing pandas, which takes 50 MB, and longer than all other imports."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


class _Performance:
    """Performs a call.

    problem: the last error of the store.  A library may turn it into one of its own.
    """

    def __init__(self, connection: Connection, call: Call, limits: _Limits) -> None:
        self.problem: Exception | None = None
        self.limits = limits
        self._connection, self._call = connection, call

    def perform(self) -> None:
        results = []
        try:
            for output in self._outputs():
                if isinstance(output, pa.RecordBatch):
                    self._tell(BATCH, data=memoryview(output.serialize()))
                else:
                    results.append(output)
            last: tuple[Any, ...] = (RETURNS, results)
        except Exception as problem:  # noqa: BLE001 - the parent raises it
            error = self.problem or problem
            if not isinstance(error, (TidegateError, MemoryError, pa.ArrowException)):
                error = RuntimeError(f"{type(error).__name__}: {error}")
            last = RAISES, error
        self._tell(*last)

    def _outputs(self) -> Iterator[Any]:
        """Yield the batches, or the results, of the method for the objects, one after the other."""
        outputs = (output for look in self._call.looks for output in self._outputs_of(look))
        return merged(outputs) if self._call.method == "read" and len(self._call.looks) > 1 else outputs

    def _outputs_of(self, look: Look) -> Iterator[Any]:
        with self.limits.waiting():  # each object has the whole time
            pass
        inner = replace(self._call.inner, store=_LookStore(self._call.inner.store, look, self))
        writing = (self._write,) if self._call.writes else ()
        outcome = getattr(inner, self._call.method)(*look.arguments, *writing)
        if hasattr(outcome, "__next__"):
            yield from outcome
        else:
            yield outcome

    def _write(self, name: str, data: bytes, records: int) -> None:
        self._tell(WRITE, name, data, records)

    def _tell(self, *message: Any, data: memoryview | None = None) -> None:
        with self.limits.waiting():  # the parent may be busy for long
            self._connection.send(message)
            if data is not None:
                self._connection.send_bytes(data)


class _Limits:
    """The CPU time that this process may take, and its time without a message or an answered fetch.

    The system ends it after either.  It is not silent while any thread waits, for a call, for the parent or for the
    store.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits = 1  # for the first call
        self._busy_s = self._silent_s = 0

    @contextlib.contextmanager
    def applied(self, call: Call) -> Iterator[None]:
        """Apply the limits of a call while the block runs; between calls there are none."""
        self._busy_s, self._silent_s = call.busy_s, call.silent_s
        self._resume()
        try:
            yield
        finally:
            self._pause()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait in the block; afterwards the process has all its time again."""
        self._pause()
        try:
            yield
        finally:
            self._resume()

    def _pause(self) -> None:
        with self._lock:
            self._waits += 1
            signal.alarm(0)

    def _resume(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        wanted = math.ceil(used.ru_utime + used.ru_stime + self._busy_s)
        resource.setrlimit(resource.RLIMIT_CPU, (wanted if most < 0 else min(wanted, most), most))
        with self._lock:
            self._waits -= 1
            if not self._waits:
                signal.alarm(self._silent_s)


class _LookStore(ObjectStore):
    """The store of a format, with the bytes that came with a call."""

    def __init__(self, store: ObjectStore, look: Look, performance: _Performance) -> None:
        super().__init__(store.config, store.bucket)
        store.config.note_answer()  # the parent has reached the endpoint
        self._store, self._look, self._performance = store, look, performance

    def fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        begin, part = self._look.begin, self._look.part
        if begin <= start and end <= begin + len(part):
            return part if (start, end) == (begin, begin + len(part)) else part[start - begin : end - begin]
        try:
            with self._performance.limits.waiting():  # the store has its own deadline
                return self._store.fetch(obj, start, end)
        except Exception as problem:
            self._performance.problem = problem
            raise


class _Watch(threading.Thread):
    """Ends this process when its parent is gone, or when it takes more memory than a call may.

    Some libraries crash if memory is refused, and reserved memory that is not used is harmless.  So the resident memory
    counts.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._hanging_up = select.poll()
        self._hanging_up.register(descriptor, 0)
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
