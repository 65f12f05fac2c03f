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
import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Literal, TypeAlias

from tidegate.errors import ConnectorError
from tidegate.readers.formats.guarded.child import BATCH, END, ERROR, OUT_OF_MEMORY, RESULT, Call

START_S = 120  # the maximum time of a start
SILENT_S = 600  # the maximum time without a message; each fetch is one, and ends by its own deadline
END_S = 5.0  # the maximum time from the end of the connection to the end of the process
MOST_AT_ONCE = max(2, min(4, os.cpu_count() or 1))
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
    """A child that performs one call at a time; it prints to the stderr of its parent.

    is_usable: whether the child waits for a call, as far as known.

    Raises ConnectorError if the child does not start.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.is_usable = False
        self._connection, other = multiprocessing.Pipe()
        try:
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM.format(sys.path, other.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[other.fileno()],
                )
        except OSError as problem:
            self._connection.close()
            raise ConnectorError(f"the process that decodes objects does not start: {problem}") from None
        try:
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

    def run(self, call: Call) -> Generator[Any, None, None]:
        """Perform a call: yield its batches, as messages of Arrow, or its result for each object.

        Raises DecoderEndedError, and the errors of the method.  Those that are neither tidegate's nor Arrow's become
        RuntimeError.
        """
        self.calls += 1
        self.is_usable = False
        try:
            self._connection.send(call)
        except OSError:
            raise self._ended() from None
        while (message := self._message(call))[0] not in {END, ERROR}:
            if message[0] == BATCH:
                yield self._bytes(call.most_bytes)
            elif message[0] == RESULT:
                yield message[1]
        self.is_usable = True
        if message[0] == ERROR:
            raise message[1]

    def close(self) -> None:
        """End the child; a call that is under way is lost."""
        self.is_usable = False
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _await_start(self) -> None:
        if not self._connection.poll(START_S):
            raise TimeoutError(f"no answer within {START_S} s")
        self._connection.recv()

    def _message(self, call: Call) -> tuple[Any, ...]:
        if not self._connection.poll(SILENT_S):
            raise DecoderEndedError(f"gave no answer for {SILENT_S} s", "silent")
        data = self._bytes(call.most_bytes)
        try:
            message: tuple[Any, ...] = pickle.loads(data)  # noqa: S301 - the child runs the same code
        except Exception as problem:  # noqa: BLE001 - whatever the bytes of a damaged child lead to
            raise DecoderEndedError(f"it sends no message: {type(problem).__name__}", "crash") from None
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
        cause = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        return DecoderEndedError(cause, _KINDS.get(status, "crash"))


class _Pool:
    """The decoder processes that wait for a call, and the turns of threads that call them."""

    def __init__(self) -> None:
        self.idle: deque[DecoderProcess] = deque()
        self.turns = threading.BoundedSemaphore(MOST_AT_ONCE)

    def kept(self) -> DecoderProcess | None:
        """Return a process that waits for a call; those that have ended are dropped on the way."""
        with suppress(IndexError):  # threads share the pool
            while (kept := self.idle.pop()).has_ended:
                kept.close()
            return kept
        return None


@cache
def _pool(_process_id: int) -> _Pool:
    """Return the pool of this process: the children that a fork copies belong to the process that was forked."""
    return _Pool()


@contextmanager
def turn() -> Iterator[None]:
    """Wait for one of MOST_AT_ONCE turns, and hold it: many threads share so many processes."""
    with _pool(os.getpid()).turns:
        yield


@contextmanager
def decoder(*, fresh: bool = False) -> Iterator[DecoderProcess]:
    """Lend a decoder process.  It is kept for the next caller, unless it has ended.

    Raises ConnectorError if no process can be started.
    """
    pool = _pool(os.getpid())
    lent = (None if fresh else pool.kept()) or DecoderProcess()
    try:
        yield lent
    finally:
        if lent.is_usable:
            pool.idle.append(lent)
        else:
            lent.close()


@atexit.register
def _close() -> None:
    pool = _pool(os.getpid())
    while (kept := pool.kept()) is not None:
        kept.close()
