"""Child processes and a temporary folder that never outlive this process.

A :class:`Sandbox` ends when it is closed, and when this process ends, even by SIGKILL: :mod:`tidegate.servers.guard`
watches it.  Children run in sessions of their own, so a Ctrl-C in the terminal reaches only this process.  The ``with``
block decides the order in which children end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from tidegate.errors import ServerError
from tidegate.servers import guard

LOG_LINES = 12
JAVA_FRAME = "\tat "  # the frames of a stack trace would displace the message above them

# The child has the guard's pipe as its standard input.  It registers itself with the guard before it becomes the
# command, so this process can never die and leave the child behind.
ANNOUNCE = 'echo "+$$" >&0 && exec "$@" </dev/null'


class ServerProcess:
    """A running command, which :meth:`Sandbox.spawn` has started; its output goes to the file ``log``."""

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
        """The process id, which is also the id of the process group."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; after a signal, the negative signal number.  None: the process runs."""
        return self._popen.poll()

    def wait(self, timeout_seconds: float) -> int:
        """Wait for the end of the process, and return its exit code.  Raises ServerError if the time is up."""
        try:
            code = self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ServerError(f"{self} still runs after {timeout_seconds:g} s") from None
        self._sandbox.forget(self.pid)
        return code

    def wait_until(self, ready: Callable[[], bool], timeout_seconds: float) -> None:
        """Call ``ready`` repeatedly until it returns True.

        Raises ServerError, with the last lines of the log, if the process ends before that, or if the time is up.
        """
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if self.exit_code is not None:
                raise ServerError(f"{self} ended with code {self.exit_code} before it was ready{self.last_lines()}")
            if time.monotonic() > deadline:
                raise ServerError(f"{self} was not ready after {timeout_seconds:g} s{self.last_lines()}")
            time.sleep(0.02)  # a server answers once it is ready, and calls nobody before that

    def end(self, sig: signal.Signals = signal.SIGKILL, timeout_seconds: float = 10) -> None:
        """Send a signal to the process and its children, and wait for its end; do nothing if it has ended.

        Raises ServerError if the process still runs after ``timeout_seconds``.
        """
        if self.exit_code is None:
            os.killpg(self.pid, sig)
        self.wait(timeout_seconds)

    def last_lines(self) -> str:
        """Return the end of the log as the end of an error's sentence."""
        lines = self.log.read_text(errors="replace").splitlines()
        telling = [line for line in lines if not line.startswith(JAVA_FRAME)][-LOG_LINES:]
        return "; its log ends with:\n" + "\n".join(telling) if telling else "; its log is empty"

    def __str__(self) -> str:
        return f"process {self.pid} ({self.log.stem})"


class Sandbox:
    """A temporary folder and child processes, which end with the sandbox and with this process.

    parent: the folder in which the temporary folder is made; None: the system's folder for temporary files.
    """

    def __init__(self, parent: Path | None = None, prefix: str = "tidegate-") -> None:
        self._processes: list[ServerProcess] = []
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
            raise ServerError(f"no folder could be made in {parent or tempfile.gettempdir()}")
        self.folder = Path(folder)

    def spawn(self, command: Sequence[str], log: Path) -> ServerProcess:
        """Start a command; its output is appended to ``log``."""
        process = ServerProcess(self, command, log)
        self._processes.append(process)
        return process

    def forget(self, pid: int) -> None:
        """Notify the guard that a process has ended, since another process may get its id."""
        with suppress(BrokenPipeError):
            print(f"-{pid}", file=self.pipe, flush=True)

    def close(self) -> None:
        """Kill the processes that still run, and remove the folder; may be called repeatedly."""
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
