"""Runs child processes and a folder that never outlive us.

A :class:`Sandbox` ends when it is closed, when our process exits, and when it is killed with SIGKILL:
:mod:`tidegate.servers.guard` watches.  Children run in sessions of their own, so a Ctrl-C in the terminal reaches only
us.  The ``with`` block decides the order in which they end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import ServerError
from tidegate.servers import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Process", "Sandbox"]

LOG_LINES = 12
JAVA_FRAME = "\tat "  # a stack trace's frames would push out the sentence above them

# The child itself tells the guard (whose pipe it has as standard input) that it lives, before it becomes the command.
# So there is no moment at which we could die and leave it behind.
ANNOUNCE = 'echo "+$$" >&0 && exec "$@" </dev/null'


class Process:
    """A running command whose output goes to the file ``log``; made by :meth:`Sandbox.spawn`."""

    def __init__(self, sandbox: Sandbox, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._sandbox = sandbox
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", ANNOUNCE, "sh", *command],
                stdin=sandbox.pipe,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its process group."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs; after a signal it is the negative signal number."""
        return self._popen.poll()

    def wait(self, timeout_seconds: float) -> int:
        """Wait for its end and return the exit code.  Raises ServerError if the time is up."""
        try:
            code = self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ServerError(f"{self} still runs after {timeout_seconds:g} s.") from None
        self._sandbox.forget(self.pid)
        return code

    def wait_until(self, ready: Callable[[], bool], timeout_seconds: float) -> None:
        """Ask ``ready`` again and again until it is true.

        Raises ServerError, with the last lines of the log, if the process ends before that or if
        the time is up.
        """
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if self.exit_code is not None:
                raise ServerError(f"{self} ended with code {self.exit_code} before it was ready{self.last_lines()}")
            if time.monotonic() > deadline:
                raise ServerError(f"{self} was not ready after {timeout_seconds:g} s{self.last_lines()}")
            time.sleep(0.02)  # a server does not report that it is ready

    def end(self, sig: signal.Signals = signal.SIGKILL, timeout_seconds: float = 10) -> None:
        """Send a signal to it and its children and wait for its end; if it has ended, nothing happens.

        Raises ServerError if it still runs after ``timeout_seconds``.
        """
        if self.exit_code is None:
            os.killpg(self.pid, sig)
        self.wait(timeout_seconds)

    def last_lines(self) -> str:
        """Return the end of the log as the end of an error's sentence."""
        lines = self.log.read_text(errors="replace").splitlines()
        telling = [line for line in lines if not line.startswith(JAVA_FRAME)][-LOG_LINES:]
        return "; its log ends with:\n" + "\n".join(telling) if telling else "; its log is empty."

    def __str__(self) -> str:
        return f"process {self.pid} ({self.log.stem})"


class Sandbox:
    """A temporary folder and the processes started in it; both end with it, however we end.

    ``folder`` is made in ``parent`` (None: the system's folder for temporary files).
    """

    def __init__(self, parent: Path | None = None, prefix: str = "tidegate-") -> None:
        self._processes: list[Process] = []
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(parent or tempfile.gettempdir()), prefix],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        if self._guard.stdin is None or self._guard.stdout is None:  # pragma: no cover
            raise AssertionError
        self.pipe = self._guard.stdin
        with self._guard.stdout as output:
            folder = output.readline().rstrip("\n")
        if not folder:
            self.close()
            raise ServerError(f"No folder could be made in {parent or tempfile.gettempdir()}.")
        self.folder = Path(folder)

    def spawn(self, command: Sequence[str], log: Path) -> Process:
        """Start a command; its output is appended to ``log``."""
        process = Process(self, command, log)
        self._processes.append(process)
        return process

    def forget(self, pid: int) -> None:
        """Tell the guard that a process has ended, since its id may be given to another one."""
        with suppress(BrokenPipeError):
            print(f"-{pid}", file=self.pipe, flush=True)

    def close(self) -> None:
        """Kill what still runs and remove the folder; may be called again."""
        if self.pipe.closed:
            return
        for process in self._processes:
            process.end()
        self.pipe.close()
        self._guard.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
