"""Decoder processes: children that run formats whose libraries may end the process.

Arrow's readers of Parquet and ORC trust their input.  Some damaged objects end the process, some reserve gigabytes, and
some keep the process busy forever.  A child is started by exec when it is first needed, and reused.  It is no sandbox:
it may do what its parent may do.

Python's ProcessPoolExecutor imports the main module in each child, which is PySpark's daemon, and starts a process that
tracks semaphores.  It limits neither memory nor time, and returns no part of a result.  So the child is a plain
subprocess here, with a connection of multiprocessing.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeAlias

from tidegate.errors import ConnectorError
from tidegate.readers.formats.guarded.child import BATCH, FETCHED, OUT_OF_MEMORY, RAISES, WRITE, Call
from tidegate.readers.objects.values import WriteFile

__all__ = ["DecoderEndedError", "DecoderProcess", "decoder", "turn"]

START_S = 120  # the maximum time of a start
SILENT_S = 600  # the maximum time without a message; each fetch is one, and ends by its own deadline
END_S = 5.0  # the maximum time from the end of the connection to the end of the process
MOST_AT_ONCE = max(2, min(4, os.cpu_count() or 1))
SAID_BYTES = 4096  # the size of the end of the output that is searched for a reason
_PROGRAM = "import sys; sys.path[:] = {}; from tidegate.readers.formats.guarded.child import main; main({})"

EndKind: TypeAlias = Literal["crash", "killed", "memory", "busy", "silent"]
_KINDS: dict[int, EndKind] = {
    OUT_OF_MEMORY: "memory",
    -signal.SIGXCPU: "busy",
    **dict.fromkeys((-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP), "killed"),
}
"""How a process ended, by its exit status."""


class DecoderEndedError(Exception):
    """A decoder process ended during a call; its text is a clause such as ``signal SIGSEGV``.

    kind: how it ended.  "killed": somebody else ended it.  "memory": there was not enough memory.  "busy": it took all
        the CPU time that a call may take.  "silent": it has not ended, but sends nothing.  "crash": any other reason.
    """

    def __init__(self, cause: str, kind: EndKind) -> None:
        super().__init__(cause)
        self.kind = kind


class DecoderProcess:
    """A child that performs one call at a time.

    is_usable: whether the child waits for a call, as far as known.

    Raises ConnectorError if the child does not start.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.is_usable = False
        self._said_before = 0  # the size of the output before the call
        self._held = ExitStack()
        try:
            self._said = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - close() closes it
            own, other = multiprocessing.Pipe()
            self._connection = self._held.enter_context(own)
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM.format(sys.path, other.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=self._said,
                    stderr=self._said,
                    pass_fds=[other.fileno()],
                )
            self._held.callback(self._end)
            self._await_start()
        except (EOFError, OSError) as problem:
            cause = self._ended() if isinstance(problem, EOFError) else problem
            self.close()
            raise ConnectorError(f"the process that decodes objects does not start: {cause}") from None
        except BaseException:
            self.close()
            raise
        self.is_usable = True

    @property
    def has_ended(self) -> bool:
        """True if the child is gone, perhaps because it was idle for long."""
        return self._process.poll() is not None

    def run(self, call: Call, write: WriteFile | None) -> Generator[bytes, None, list[Any]]:
        """Perform a call: yield its batches, as messages of Arrow, and return its result for each object.

        write: writes files of bad records for the method; None: it writes none.

        Raises DecoderEndedError, and the errors of the method and of ``write``.  The method's errors that are neither
        tidegate's nor Arrow's become RuntimeError.
        """
        self.calls += 1
        self.is_usable = False
        self._said_before = self._said_bytes()
        message = self._asked(call)
        while (kind := message[0]) in {BATCH, WRITE}:
            if kind == BATCH:
                yield self._bytes(call.most_bytes)
            elif write is not None:
                write(*message[1:])
            message = self._message(call)
        self.is_usable = True
        if kind == RAISES:
            raise message[1]
        results: list[Any] = message[1]
        return results

    def close(self) -> None:
        """End the child; a call that is under way is lost."""
        self.is_usable = False
        self._held.close()

    def disown(self) -> None:
        """Close the connection of a forked process to the child, which belongs to the process that was forked."""
        self._connection.close()
        self._said.close()

    def _await_start(self) -> None:
        if not self._connection.poll(START_S):
            raise TimeoutError(f"no answer within {START_S} s")
        self._connection.recv()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _asked(self, call: Call) -> tuple[Any, ...]:
        try:
            self._connection.send(call)
        except OSError:
            raise self._ended() from None
        return self._message(call)

    def _message(self, call: Call) -> tuple[Any, ...]:
        while True:
            if not self._connection.poll(SILENT_S):
                raise DecoderEndedError(f"gave no answer for {SILENT_S} s", "silent")
            data = self._bytes(call.most_bytes)
            try:
                message: tuple[Any, ...] = pickle.loads(data)  # noqa: S301 - the child runs the same code
            except Exception as problem:  # noqa: BLE001 - whatever the bytes of a damaged child lead to
                raise DecoderEndedError(f"it sends no message: {type(problem).__name__}", "crash") from None
            if message[0] != FETCHED:
                return message

    def _bytes(self, most_bytes: int) -> bytes:
        try:
            return self._connection.recv_bytes(most_bytes)
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> DecoderEndedError:
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return DecoderEndedError("it sends no message", "crash")
        why = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        if status in {1, -signal.SIGABRT}:  # Python, or the runtime of C++, has printed why
            begin = max(self._said_before, self._said_bytes() - SAID_BYTES)
            said = os.pread(self._said.fileno(), SAID_BYTES, begin).decode(errors="replace")
            last = (said.strip().splitlines() or [""])[-1].strip().removeprefix("what():").strip()
            why = f"{why}: {last}" if last else why
        return DecoderEndedError(why, "memory" if why.endswith("bad_alloc") else _KINDS.get(status, "crash"))

    def _said_bytes(self) -> int:
        return os.fstat(self._said.fileno()).st_size


_IDLE: list[DecoderProcess] = []
_LOCK = threading.Lock()
_TURNS = threading.BoundedSemaphore(MOST_AT_ONCE)


@contextmanager
def turn() -> Iterator[None]:
    """Wait for one of MOST_AT_ONCE turns, and hold it: many threads share so many processes."""
    with _TURNS:
        yield


@contextmanager
def decoder(*, fresh: bool = False) -> Iterator[DecoderProcess]:
    """Lend a decoder process.  It is kept for the next caller, unless it has ended.

    Raises ConnectorError if no process can be started.
    """
    with _LOCK:
        ended = [process for process in _IDLE if process.has_ended]
        for process in ended:
            _IDLE.remove(process)
        kept = _IDLE.pop() if _IDLE and not fresh else None
    for process in ended:
        process.close()
    lent = kept or DecoderProcess()
    try:
        yield lent
    finally:
        if lent.is_usable:
            _IDLE.append(lent)
        else:
            lent.close()


def _close() -> None:
    while _IDLE:
        _IDLE.pop().close()


def _forget() -> None:
    """Begin anew in a forked process: the children belong to its parent."""
    global _LOCK, _TURNS  # threads of the parent may hold them
    _LOCK, _TURNS = threading.Lock(), threading.BoundedSemaphore(MOST_AT_ONCE)
    while _IDLE:
        _IDLE.pop().disown()


atexit.register(_close)
os.register_at_fork(after_in_child=_forget)
