"""Decoder processes: children in which formats run whose libraries may end the process.

Arrow's readers of Parquet and ORC trust what they read: some damaged objects end the process, some ask for
gigabytes, some keep it busy for ever.  A child is started by exec when it is first needed, and used again.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Literal, NamedTuple

from tidegate.errors import ConnectorError
from tidegate.readers.decoder_child import BATCH, FETCH, OUT_OF_MEMORY, RAISES, RETURNS, Look
from tidegate.readers.object_file import THREADS
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.process_channel import Channel

__all__ = ["DecoderCall", "DecoderEndedError", "DecoderProcess", "decoder"]

START_S = 120.0  # until a process is ready
SILENT_S = 120.0  # one that says nothing for so long, and waits for no bytes, never will
MOST_AT_ONCE = max(2, min(4, os.cpu_count() or 1))  # for callers who wait for their turn
END_S = 5.0  # until a process has ended that hung up
SAID_BYTES = 4096  # of the last that a process says, the most that is looked at
_PROGRAM = "import sys; sys.path[:] = {}; from tidegate.readers.decoder_child import main; main({}, {})"
_KILLED = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


class DecoderEndedError(Exception):
    """A decoder process did not outlive a call.

    cause: such as ``signal SIGSEGV``.
    kind: killed: by somebody else.  memory: there was not enough.  silent: nothing came of it.  crash: all else.
    is_first: the call was the first one of its process, so that none before it can be the reason.
    """

    def __init__(self, cause: str, kind: Literal["crash", "killed", "memory", "silent"], *, is_first: bool) -> None:
        super().__init__(cause)
        self.cause, self.kind, self.is_first = cause, kind, is_first


class DecoderCall(NamedTuple):
    """A call of a format's method, for one object, or for one after the other.

    store: is asked for what the method reads and writes, also by other threads.
    pickled: the format, without its store.
    most_bytes: of memory that the process may take.
    ahead: the bytes that come with the call, of one object after the other.
    """

    store: ObjectStore
    pickled: bytes
    most_bytes: int
    method: str
    looks: Sequence[Look]
    ahead: bytes


class DecoderProcess:
    """A child that makes one call at a time.

    is_usable: an attribute: it waits for a call, as far as is known.

    Raises ConnectorError if it does not start.
    """

    def __init__(self) -> None:
        self.is_usable = False
        self._calls = 0
        self._call: DecoderCall | None = None
        self._problem: Exception | None = None
        self._asking = 0
        self._heard_s = time.monotonic()
        self._lock = threading.Lock()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self._said_before = 0
        self._process: subprocess.Popen[bytes] | None = None
        pairs = [socket.socketpair() for _ in range(1 + THREADS)]
        self._channels = [Channel(end) for end, _ in pairs]
        try:
            self._process = self._started([end for _, end in pairs])
            for channel in self._channels[1:]:
                threading.Thread(target=self._serve, args=[channel], daemon=True, name="tidegate-decoder").start()
            self._receive(START_S)
        except (EOFError, OSError, DecoderEndedError) as problem:
            cause = self._ended() if isinstance(problem, EOFError) else problem
            self.close()
            raise ConnectorError(f"the process that decodes objects does not start: {cause}") from None
        self.is_usable = True

    def _started(self, ends: Sequence[socket.socket]) -> subprocess.Popen[bytes]:
        calls, *others = (end.fileno() for end in ends)
        try:
            return subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.format(sys.path, calls, others)],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[calls, *others],
            )
        finally:
            for end in ends:
                end.close()

    def run(self, call: DecoderCall) -> Generator[bytes, None, list[Any]]:
        """Make a call: yield its batches, as messages of Arrow, and return what it returns of each object.

        Raises what it raises, what the store raises, and DecoderEndedError.
        """
        self._call, self._problem, self.is_usable = call, None, False
        self._calls += 1
        self._said_before = os.fstat(self._said.fileno()).st_size
        channel = self._channels[0]
        try:
            channel.send((call.store.bucket, *call[1:-1]), call.ahead)
            (said, *rest), data = self._receive(SILENT_S)
            while said not in {RETURNS, RAISES}:
                if said == BATCH:
                    yield data
                else:
                    channel.send(*self._answer((said, *rest), data))
                (said, *rest), data = self._receive(SILENT_S)
        except (EOFError, OSError):
            raise self._ended() from None
        self.is_usable = True
        if said == RETURNS:
            results: list[Any] = rest[0]
            return results
        raise self._problem or rest[0]  # what could not be had, of which a library may have made an error of its own

    def close(self) -> None:
        """End it; nobody waits for what it was at."""
        self.is_usable = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for channel in self._channels:
            channel.close()
        self._said.close()

    def _receive(self, patience_s: float) -> tuple[tuple[Any, ...], bytes]:
        since_s = time.monotonic()
        while not self._channels[0].arrives(patience_s / 8):
            if not self._asking and time.monotonic() - max(since_s, self._heard_s) > patience_s:
                raise DecoderEndedError(f"no answer for {patience_s:g} s", "silent", is_first=self._calls <= 1)
        return self._channels[0].receive()

    def _serve(self, channel: Channel) -> None:
        with suppress(EOFError, OSError):
            while True:
                channel.send(*self._answer(*channel.receive()))

    def _answer(self, question: tuple[Any, ...], data: bytes) -> tuple[bool, bytes]:
        with self._lock:
            self._asking += 1
        try:
            return True, self._asked(question, data)
        except Exception as problem:  # noqa: BLE001 - whoever made the call raises it
            self._problem = problem
            return False, b""
        finally:
            with self._lock:
                self._asking -= 1
            self._heard_s = time.monotonic()

    def _asked(self, question: tuple[Any, ...], data: bytes) -> bytes:
        call = self._call
        if call is None:
            raise ValueError("it is asked for bytes before it is called")
        if question[0] != FETCH:
            call.store.write(question[1], data)
            return b""
        _, found, start, end = question
        if end - start > call.most_bytes:
            raise MemoryError
        return call.store.fetch(found, start, end)

    def _ended(self) -> DecoderEndedError:
        status = self._status()
        end = os.fstat(self._said.fileno()).st_size
        told = os.pread(self._said.fileno(), SAID_BYTES, max(self._said_before, end - SAID_BYTES))
        said = told.decode(errors="replace").strip()
        why = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        # As the runtime of C++ tells of an exception that nobody catches, or Python of one.
        _, is_uncaught, what = said.rpartition("what():")
        lines = (what.strip() if is_uncaught else said if status > 0 else "").splitlines()
        if lines:
            why = f"{why}: {lines[0 if is_uncaught else -1].strip()}"
        kind: Literal["crash", "killed", "memory"] = "killed" if -status in _KILLED else "crash"
        if status == OUT_OF_MEMORY or "bad_alloc" in said:
            kind = "memory"
        return DecoderEndedError(why, kind, is_first=self._calls <= 1)

    def _status(self) -> int:
        """Return how it ended: it has hung up."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


@contextmanager
def decoder(*, fresh: bool = False, in_turn: bool = False) -> Iterator[DecoderProcess]:
    """Lend a decoder process of this one, which is kept for the next call unless it ended meanwhile.

    fresh: one that was lent to nobody yet.
    in_turn: wait while MOST_AT_ONCE are lent like this.

    Raises ConnectorError if none can be started.
    """
    decoders = _decoders(os.getpid())
    process = decoders.take(fresh=fresh, in_turn=in_turn)
    try:
        yield process
    finally:
        decoders.give_back(process, in_turn=in_turn)


class _Decoders:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[DecoderProcess] = []
        self._in_turn = 0

    def take(self, *, fresh: bool, in_turn: bool) -> DecoderProcess:
        with self._changed:
            if in_turn:
                self._changed.wait_for(lambda: self._in_turn < MOST_AT_ONCE)
                self._in_turn += 1
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
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()


# A forked process has none of the children.
@functools.cache
def _decoders(process_id: int) -> _Decoders:
    made = _Decoders()
    atexit.register(lambda: made.close() if os.getpid() == process_id else None)
    return made
