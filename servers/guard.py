"""Cleans up when the process that started this program is gone.

:mod:`tidegate.servers.process` runs this file by its path, with isolated Python and in a session of its own.  The guard
makes a folder, prints its path, and reads lines from its standard input.  ``+7`` begins to guard process group 7, and
``-7`` ends that.  At the end of the input, the guard kills all guarded groups and removes the folder.

This is robust, because the kernel closes the pipe however its writer ends, also by SIGKILL.  ``PR_SET_PDEATHSIG`` would
need no second process.  But only Linux has it, it fires when the *thread* that started the child ends, and it removes
no folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress

KILL_SECONDS = 10.0


def main(parent: str, prefix: str) -> None:
    """Guard a temporary folder, which is made here, until the end of the standard input."""
    folder = tempfile.mkdtemp(dir=parent, prefix=prefix)
    groups: set[int] = set()
    with suppress(BrokenPipeError):
        print(folder, flush=True)  # noqa: T201
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    # A killed process may write a last file while the folder is removed.
    deadline = time.monotonic() + KILL_SECONDS
    while os.path.exists(folder) and time.monotonic() < deadline:  # noqa: PTH110 - pathlib would slow the start
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)  # nothing reports the end of a group of processes to one that is not their parent


if __name__ == "__main__":
    main(*sys.argv[1:])
