"""PySpark's daemon of Python workers, with a garbage collection that leaves out imported modules.

For ``spark.python.daemon.module``: so functions of users become as fast as readers, which freeze imports themselves.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

from pyspark import daemon

from tidegate.readers.worker_memory import TASKS, freeze

__all__ = ["collect"]

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
    daemon.gc = SimpleNamespace(collect=collect)  # type: ignore[assignment, attr-defined]
    daemon.manager()
