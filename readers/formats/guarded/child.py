"""The program of a decoder process, which calls formats whose libraries may end it."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import sys
import threading
import time
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
from tidegate.readers.objects.values import Bucket, S3Object

IDLE_S = 60.0  # after this time without a call, the process ends, as idle workers of Spark do
WATCH_S = 0.05
OUT_OF_MEMORY = 83
"""The exit code of a process that took too much memory."""

BATCH, RESULT, FETCHED, END, ERROR = "batch", "result", "fetched", "end", "error"
"""The subjects of the messages about a call; the bytes of a batch follow BATCH.  FETCHED only shows progress."""


class ObjectRead(NamedTuple):
    """An object that a call reads, the method's arguments, and the part that the parent has fetched, by its offset."""

    obj: S3Object
    arguments: tuple[Any, ...]
    begin: int
    part: bytes


class Call(NamedTuple):
    """A call of a format's method, for one or several objects.

    most_bytes: the maximum memory of the process, in bytes.
    busy_s: the maximum CPU time without a message, in seconds.
    """

    inner: TypedFormat
    method: str
    looks: Sequence[ObjectRead]
    most_bytes: int
    busy_s: int


def main(descriptor: int) -> None:
    """Perform calls until the parent is gone, or has sent none for IDLE_S."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C in a terminal, the parent decides when this process ends
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.meta_path.insert(0, _NoPandas())
    watch = _Watch()
    watch.start()
    connection = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):
        connection.send(None)  # it has started
        while connection.poll(IDLE_S):
            call: Call = connection.recv()
            watch.most_bytes = call.most_bytes
            _Performance(connection, call).perform()


class _NoPandas(MetaPathFinder):
    """Keeps Arrow from importing pandas, which takes 50 MB, and longer than all other imports."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


class _Performance:
    """Performs a call.  The system ends this process after ``busy_s`` of CPU time without a message."""

    def __init__(self, connection: Connection, call: Call) -> None:
        self._connection, self._call = connection, call
        self._sending = threading.Lock()  # threads of a format fetch, and then send FETCHED

    def perform(self) -> None:
        self._allow_cpu()
        try:
            for output in self._outputs():
                if isinstance(output, pa.RecordBatch):
                    self.tell(BATCH, data=memoryview(output.serialize()))
                else:
                    self.tell(RESULT, output)
        except (TidegateError, MemoryError, pa.ArrowException) as problem:
            self.tell(ERROR, problem)
        except Exception as problem:  # noqa: BLE001 - the parent raises it
            self.tell(ERROR, RuntimeError(f"{type(problem).__name__}: {problem}"))
        else:
            self.tell(END)

    def _outputs(self) -> Iterator[Any]:
        """Yield the batches, or the results, of the method for the objects, one after the other."""
        outputs = (output for look in self._call.looks for output in self._outputs_of(look))
        return merged(outputs) if self._call.method == "read" and len(self._call.looks) > 1 else outputs

    def _outputs_of(self, look: ObjectRead) -> Iterator[Any]:
        self._allow_cpu()  # each object has the whole time
        inner = replace(self._call.inner, store=_Looked(self._call.inner.store, look, self))
        outcome = getattr(inner, self._call.method)(*look.arguments)
        if hasattr(outcome, "__next__"):
            yield from outcome
        else:
            yield outcome

    def tell(self, *message: Any, data: memoryview | None = None) -> None:
        """Send a message to the parent, which may be busy for long."""
        with self._sending:
            self._connection.send(message)
            if data is not None:
                self._connection.send_bytes(data)
        self._allow_cpu()

    def _allow_cpu(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        wanted = math.ceil(used.ru_utime + used.ru_stime + self._call.busy_s)
        resource.setrlimit(resource.RLIMIT_CPU, (wanted if most < 0 else min(wanted, most), most))


class _Looked:
    """The objects of a format, with the bytes that came with a call."""

    def __init__(self, store: Bucket, look: ObjectRead, performance: _Performance) -> None:
        self.bucket, self.address = store.bucket, store.address
        self._store, self._look, self._performance = store, look, performance

    def fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        begin, part = self._look.begin, self._look.part
        if begin <= start and end <= begin + len(part):
            return part if (start, end) == (begin, begin + len(part)) else part[start - begin : end - begin]
        data = self._store.fetch(obj, start, end)
        self._performance.tell(FETCHED)
        return data


class _Watch(threading.Thread):
    """Ends this process when its parent is gone, or when it takes more memory than a call may.

    Some libraries crash if memory is refused, and reserved memory that is not used is harmless.  So the resident memory
    counts.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._parent_id, self._empty_bytes = os.getppid(), _resident_bytes()
        self.most_bytes = sys.maxsize

    def run(self) -> None:
        while os.getppid() == self._parent_id:
            if _resident_bytes() - self._empty_bytes > self.most_bytes:
                os._exit(OUT_OF_MEMORY)
            time.sleep(WATCH_S)  # nothing reports that memory grows, so both are looked at
        os._exit(0)


def _resident_bytes() -> int:
    """Return the memory of this process in bytes; 0: unknown."""
    try:
        _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    except OSError:
        return 0
    return (resident - shared) * resource.getpagesize()
