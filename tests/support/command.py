"""Other processes: the command line with all that it starts in one group, and waiting for what they bring about."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_S = 300
"""The maximum time of a wait in a test, however slow the machine is; only a wait that fails takes it."""

_POLL_S = 0.02


def await_that(condition, seconds=PATIENCE_S, state=lambda: None):
    """Wait until the condition is true.

    state: says in the failure how things stood when the time was over.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, state()
        time.sleep(_POLL_S)  # neither other processes nor threads of the code tell a test what they have done


@contextmanager
def meanwhile(work):
    """Work in a thread while the block runs.

    work: is given an event that is set at the end of the block, and returns soon after.
    """
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


TIDEGATE = [sys.executable, "-m", "tidegate"]
_LIKE_AN_ERROR = re.compile(r"\bERROR\b|Error\b|Exception\b|Traceback|^\s+at |Py4J|Completed execution")


def errors_in(shown):
    """Return the lines that a reader would take for errors."""
    return [line for line in shown.splitlines() if _LIKE_AN_ERROR.search(line)]


def started(*arguments, **options):
    """Start the command; nothing of it is left at the end."""
    return running([*TIDEGATE, *map(str, arguments)], **options)


@contextmanager
def running(command, **options):
    """Start any program; nothing of it is left at the end."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        yield process
    finally:
        kill(process)


def dice_of_kills():
    """Return what chooses the moments at which tests kill; KILLS_SEED in the environment chooses other moments."""
    return random.Random(int(os.environ.get("KILLS_SEED", "1")))


def kill(process):
    """Kill the command, its Java and its Python workers, as a power cut would."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for worker in _of_session(process):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    process.communicate()


def _of_session(process):
    """Return the ids of all processes that a process has started: PySpark's workers are in a group of their own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getsid(int(folder.name)) == process.pid:
                found.append(int(folder.name))
    return found


def descendants(pid, named=""):
    """Return the descendants of a process, also outside of its group, whose command lines have a text in them."""
    children = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        for child in children.get(left.pop(), []):
            left.append(child)
            with suppress(OSError):
                if named in Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode():
                    found.append(child)
    return found


def finish(process):
    """Return exit code, stdout and stderr."""
    output, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output, errors


def await_while_running(condition, process):
    """Wait until the condition is true while the process runs."""

    def holds():
        assert process.poll() is None, process.communicate()
        return condition()

    await_that(holds)
