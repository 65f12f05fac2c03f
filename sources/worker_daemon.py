"""Python workers of Spark that rest less between their tasks.  For ``spark.python.daemon.module``.

PySpark collects garbage after each task (``pyspark.daemon``), and the next task waits for that.  With pyarrow, pandas
and numba imported, it waits for 20 to 60 ms, so readers freeze what they have imported.  This daemon does it for
functions of users as well, and ends a worker whose connection Java has closed without a stack trace.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from tidegate.spark_private import QUIET_TRACEBACK, worker_daemon

_TASKS = 3  # the first task imports most modules, the second may import more, and the third has all of them
_begun = _ended = 0


def freeze_imports() -> None:
    """Freeze if this is one of the first tasks of this process.  Called when each task begins."""
    global _begun  # noqa: PLW0603 - the count belongs to the process, which outlives the objects of a task
    if _begun < _TASKS:
        _begun += 1
        _freeze()


def collect() -> None:
    """Collect garbage after a worker's task as the daemon does, and freeze after the first tasks."""
    global _ended  # noqa: PLW0603 - of the worker's process
    _ended += 1
    if _ended <= _TASKS:
        _freeze()
    else:
        gc.collect()


def _freeze() -> None:
    """Keep all objects that live now out of later collections.

    Garbage is collected first.  Objects are still freed with their last reference, but cycles among them never are.  So
    only the first tasks of a worker call it.
    """
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    daemon: Any = worker_daemon()
    daemon.traceback = QUIET_TRACEBACK
    daemon.gc = SimpleNamespace(collect=collect)
    daemon.manager()
