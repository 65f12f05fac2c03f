"""PySpark's daemon of Python workers, quieter and quicker.  For ``spark.python.daemon.module``.

- Its garbage collection leaves out imported modules.  So functions of users become as fast as readers, which freeze
  imports themselves.
- A worker whose connection Java has closed ends without a stack trace.  Java closes it when the session ends, when a
  worker was idle for a minute, and when a task needs no more rows.  PySpark prints a BrokenPipeError each time.
"""

from __future__ import annotations

import gc
import socket
from types import SimpleNamespace

from pyspark import daemon

from tidegate.readers.worker_memory import TASKS, freeze

__all__ = ["collect", "worker"]

_ended = 0
_of_pyspark = daemon.worker


def collect() -> None:
    """Collect garbage after a worker's task as the daemon does, and freeze after the first tasks."""
    global _ended  # noqa: PLW0603 - of the worker's process
    _ended += 1
    if _ended <= TASKS:
        freeze()
    else:
        gc.collect()


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run one task as PySpark does, and return 1 to end the process if nobody is there to take its end."""
    try:
        return _of_pyspark(sock, authenticated)
    except ConnectionError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.gc = SimpleNamespace(collect=collect)  # type: ignore[assignment, attr-defined]
    daemon.manager()
