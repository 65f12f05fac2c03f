"""Decoder processes: children that run formats whose libraries may end the process.

Arrow's readers of Parquet and ORC trust their input.  Some damaged objects end the process, some reserve gigabytes, and
some keep the process busy forever.  A child is started by exec when it is first needed, and reused.  Python's
ProcessPoolExecutor limits neither the memory nor the time of a call, and unpickles anything that a child sends.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Literal, NamedTuple, TypeAlias

from tidegate.errors import ConnectorError
from tidegate.readers.formats.guarded.channel import Channel, MalformedMessageError
from tidegate.readers.formats.guarded.child import OUT_OF_MEMORY
from tidegate.readers.formats.guarded.messages import (
    BATCH,
    FETCH,
    GIVEN,
    IN_VAIN,
    RAISES,
    RETURNS,
    WRITE,
    Look,
    error_of,
    unpacked,
)
from tidegate.readers.objects.values import WriteFile
from tidegate.readers.s3.file import THREADS
from tidegate.readers.s3.store import ObjectStore

__all__ = ["DecoderCall", "DecoderEndedError", "DecoderProcess", "decoder"]

START_S = 120.0  # the maximum time of a start

# A process that takes so much CPU without an answer is stuck.  A slow machine does not count, as it would in wall time.
BUSY_S = 120.0

SILENT_S = 600.0  # a process that neither answers nor waits for bytes for so long sleeps forever
MOST_AT_ONCE = max(2, min(4, os.cpu_count() or 1))  # the number of processes for callers who wait for their turn
END_S = 5.0  # the maximum time from the end of the connection to the end of the process
SAID_BYTES = 4096  # the size of the end of the output that is searched for a reason
_PROGRAM = "import sys; sys.path[:] = {}; from tidegate.readers.formats.guarded.child import main; main({}, {})"
_KILLED = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

EndKind: TypeAlias = Literal["crash", "killed", "memory", "busy", "silent"]


class DecoderEndedError(Exception):
    """A decoder process ended during a call.

    cause: a clause such as ``signal SIGSEGV``.
    kind: how it ended.  "killed": somebody else ended it.  "memory": there was not enough memory.  "busy": it took
        BUSY_S of CPU without an answer.  "silent": it gave no answer for SILENT_S.  "crash": any other reason.
    is_first: the call was the first one of its process, so no earlier call can be the reason.
    """

    def __init__(self, cause: str, kind: EndKind, *, is_first: bool) -> None:
        super().__init__(cause)
        self.cause, self.kind, self.is_first = cause, kind, is_first


class DecoderCall(NamedTuple):
    """A call of a format's method, for one or several objects.

    store: reads for the method, also in other threads.
    pickled: the format, without its store.
    most_bytes: the maximum memory of the process, in bytes.
    method: the name of the method.
    looks: the objects, each with the arguments of the method.
    ahead: the parts of the objects that come with the call, one after the other.
    write: writes files of bad records for the method; None: it writes none.
    """

    store: ObjectStore
    pickled: bytes
    most_bytes: int
    method: str
    looks: Sequence[Look]
    ahead: bytes
    write: WriteFile | None


@dataclass
class _Running:
    """A call that is under way.

    number: the number of the call among those of its process.
    problem: the error of the last fetch or write that failed.
    """

    call: DecoderCall
    number: int
    problem: Exception | None = None


class DecoderProcess:
    """A child that performs one call at a time.

    is_usable: whether the child waits for a call, as far as known; an attribute.

    Raises ConnectorError if the child does not start.
    """

    _said: IO[bytes]
    _process: subprocess.Popen[bytes]

    def __init__(self) -> None:
        self.is_usable = False
        self._calls = 0
        self._running: _Running | None = None
        self._asking = 0
        self._heard_s = time.monotonic()
        self._lock = threading.Lock()
        self._said_before = 0
        self._channels: list[Channel] = []
        self._held = ExitStack()
        try:
            self._start()
        except (EOFError, OSError, RuntimeError, MalformedMessageError, DecoderEndedError) as problem:
            cause = self._ended() if isinstance(problem, EOFError) else problem
            self.close()
            raise ConnectorError(f"the process that decodes objects does not start: {cause}") from None
        except BaseException:
            self.close()
            raise
        self.is_usable = True

    def _start(self) -> None:
        self._said = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - close() closes it
        with ExitStack() as theirs:
            ends = []
            # Threads need no patience: when a silent process is ended, their connections close.
            for patience_s in (SILENT_S, *[None] * THREADS):
                own, other = socket.socketpair()
                self._channels.append(Channel(self._held.enter_context(own), patience_s))
                ends.append(theirs.enter_context(other).fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.format(sys.path, ends[0], ends[1:])],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=ends,
            )
        self._held.callback(self._end)
        for channel in self._channels[1:]:
            threading.Thread(target=self._serve, args=[channel], daemon=True, name="tidegate-decoder").start()
        self._receive(START_S, 0)

    @property
    def has_ended(self) -> bool:
        """True if the child is gone, perhaps because it was idle for long."""
        return self._process.poll() is not None

    def run(self, call: DecoderCall) -> Generator[bytes, None, list[Any]]:
        """Perform a call: yield its batches, as messages of Arrow, and return its result for each object.

        Raises DecoderEndedError, the errors of the store, and the errors of the method.  The method's errors that are
        not tidegate's change their class: Arrow's become pa.ArrowException, and others RuntimeError.
        """
        self._calls += 1
        running = self._running = _Running(call, self._calls)
        self.is_usable = False
        self._said_before = os.fstat(self._said.fileno()).st_size
        channel = self._channels[0]
        bounds, writes = (call.most_bytes, BUSY_S), call.write is not None
        order = self._calls, call.store.bucket, call.pickled, *bounds, call.method, call.looks, writes
        try:
            channel.send(pickle.dumps(order), call.ahead)
            (kind, *rest), data = self._receive(SILENT_S, call.most_bytes)
            while kind not in {RETURNS, RAISES}:
                if kind == BATCH:
                    yield data
                else:
                    channel.send(*self._answer((kind, *rest), data))
                (kind, *rest), data = self._receive(SILENT_S, call.most_bytes)
        except MalformedMessageError as problem:
            raise self._end_error(str(problem), "crash") from None
        except BlockingIOError:
            raise self._silence(SILENT_S) from None
        except (EOFError, OSError):
            raise self._ended() from None
        self._running, self.is_usable = None, True
        if kind == RETURNS:
            results: list[Any] = rest[0]
            return results
        # A library may have turned the error of the store into one of its own.
        raise running.problem or error_of(*rest)

    def close(self) -> None:
        """End the child; a call that is under way is lost."""
        self.is_usable = False
        self._held.close()

    def disown(self) -> None:
        """Close the connections of a forked process to the child, which belongs to the process that was forked."""
        for channel in self._channels:
            channel.close()
        self._said.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _receive(self, patience_s: float, most_bytes: int) -> tuple[tuple[Any, ...], bytes]:
        since_s = time.monotonic()
        while not self._channels[0].arrives(patience_s / 8):
            if not self._asking and time.monotonic() - max(since_s, self._heard_s) > patience_s:
                raise self._silence(patience_s)
        head, data = self._channels[0].receive(most_bytes)
        return unpacked(head), data

    def _serve(self, channel: Channel) -> None:
        with suppress(EOFError, OSError, MalformedMessageError):
            while True:
                head, data = channel.receive(0)  # only the thread that performs calls sends bytes, to write them
                channel.send(*self._answer(unpacked(head), data))

    def _answer(self, question: tuple[Any, ...], data: bytes) -> tuple[bytes, bytes]:
        kind, *rest = question
        if kind not in {FETCH, WRITE}:
            raise MalformedMessageError(f"it sends {kind!r} during a call")
        number, *about = rest
        running = self._running
        if running is None or running.number != number:  # the thread has outlived its call
            return IN_VAIN, b""
        if kind == FETCH and about[0] not in range(len(running.call.looks)):
            raise MalformedMessageError("it asks for bytes of no object of its call")
        with self._lock:
            self._asking += 1
        try:
            return GIVEN, _asked(running.call, kind, about, data)
        except Exception as problem:  # noqa: BLE001 - the call raises it
            running.problem = problem
            return IN_VAIN, b""
        finally:
            with self._lock:
                self._asking -= 1
            self._heard_s = time.monotonic()

    def _silence(self, patience_s: float) -> DecoderEndedError:
        return self._end_error(f"no answer for {patience_s:g} s", "silent")

    def _ended(self) -> DecoderEndedError:
        status = self._status()
        if -status == signal.SIGXCPU:
            return self._end_error(f"no answer for {BUSY_S:g} s of CPU time", "busy")
        end = os.fstat(self._said.fileno()).st_size
        output = os.pread(self._said.fileno(), SAID_BYTES, max(self._said_before, end - SAID_BYTES))
        said = output.decode(errors="replace").strip()
        why = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        # The runtime of C++ writes "what():" and the text of an uncaught exception.  Python's text is in the last line.
        _, is_uncaught, cause = said.rpartition("what():")
        lines = (cause.strip() if is_uncaught else said if status > 0 else "").splitlines()
        if lines:
            why = f"{why}: {lines[0 if is_uncaught else -1].strip()}"
        kind: EndKind = "killed" if -status in _KILLED else "crash"
        if status == OUT_OF_MEMORY or "bad_alloc" in said:
            kind = "memory"
        return self._end_error(why, kind)

    def _end_error(self, cause: str, kind: EndKind) -> DecoderEndedError:
        return DecoderEndedError(cause, kind, is_first=self._calls <= 1)

    def _status(self) -> int:
        """Return the exit status of the process, whose connection has ended; kill it if it does not end in time."""
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _asked(call: DecoderCall, kind: str, about: Sequence[Any], data: bytes) -> bytes:
    if kind != FETCH:
        name, records = about
        if call.write is None or "/" in name:
            raise MalformedMessageError(f"it writes {name!r}")
        call.write(name, data, records)
        return b""
    look, start, end = about
    if end - start > call.most_bytes:
        raise MemoryError
    return call.store.fetch(call.looks[look].obj, start, end)


@contextmanager
def decoder(*, fresh: bool = False, in_turn: bool = False) -> Iterator[DecoderProcess]:
    """Lend a decoder process.  It is kept for the next caller, unless it has ended.

    fresh: start a new process.
    in_turn: wait while MOST_AT_ONCE processes are lent to such callers.

    Raises ConnectorError if no process can be started.
    """
    process = _DECODERS.take(fresh=fresh, in_turn=in_turn)
    try:
        yield process
    finally:
        _DECODERS.give_back(process, in_turn=in_turn)


class _Decoders:
    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[DecoderProcess] = []
        self._in_turn = 0

    def take(self, *, fresh: bool, in_turn: bool) -> DecoderProcess:
        with self._changed:
            if in_turn:
                self._changed.wait_for(lambda: self._in_turn < MOST_AT_ONCE)
                self._in_turn += 1
            self._drop_ended()
            if self._idle and not fresh:
                return self._idle.pop()
        try:
            return DecoderProcess()
        except BaseException:
            self._leave(in_turn=in_turn)
            raise

    def give_back(self, process: DecoderProcess, *, in_turn: bool) -> None:
        if process.is_usable:
            self._leave(process, in_turn=in_turn)
        else:
            process.close()
            self._leave(in_turn=in_turn)

    def _leave(self, *idle: DecoderProcess, in_turn: bool) -> None:
        with self._changed:
            self._in_turn -= in_turn
            self._idle += idle
            self._drop_ended()
            self._changed.notify()

    def _drop_ended(self) -> None:
        for process in [idle for idle in self._idle if idle.has_ended]:
            self._idle.remove(process)
            process.close()

    def close(self) -> None:
        with self._changed:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def forget(self) -> None:
        """Begin anew in a forked process: its threads are gone, and the children belong to its parent."""
        for process in self._idle:
            process.disown()
        self._begin()


_DECODERS = _Decoders()
atexit.register(_DECODERS.close)
os.register_at_fork(after_in_child=_DECODERS.forget)
