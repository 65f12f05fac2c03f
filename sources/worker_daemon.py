"""PySpark's daemon of Python workers, whose workers collect garbage after a task without looking through imports.

For ``spark.python.daemon.module``: so functions of users gain what readers gain, which freeze by themselves.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

from pyspark import daemon

from tidegate.readers.worker_memory import TASKS, freeze

__all__ = ["collect"]

_ended = 0


def collect() -> None:
    """Do what the daemon does when a task of a worker has ended, and freeze after the first ones."""
    global _ended  # noqa: PLW0603 - of the worker's process
    _ended += 1
    if _ended <= TASKS:
        freeze()
    else:
        gc.collect()


if __name__ == "__main__":
    daemon.gc = SimpleNamespace(collect=collect)  # type: ignore[assignment, attr-defined]
    daemon.manager()
