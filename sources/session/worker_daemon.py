"""PySpark's daemon of Python workers, quieter and quicker.  For ``spark.python.daemon.module``.

- Its garbage collection leaves out imported modules.  So functions of users become as fast as readers, which freeze
  imports themselves.
- A worker whose connection Java has closed ends without a stack trace.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from tidegate.readers.spark_worker import QUIET_TRACEBACK, TASKS, freeze
from tidegate.spark_private import worker_daemon

_ended = 0


def collect() -> None:
    """Collect garbage after a worker's task as the daemon does, and freeze after the first tasks."""
    global _ended  # noqa: PLW0603 - of the worker's process
    _ended += 1
    if _ended <= TASKS:
        freeze()
    else:
        gc.collect()


if __name__ == "__main__":
    daemon: Any = worker_daemon()
    daemon.traceback = QUIET_TRACEBACK
    daemon.gc = SimpleNamespace(collect=collect)
    daemon.manager()
