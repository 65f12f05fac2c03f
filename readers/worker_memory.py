"""Keeps imported modules out of the garbage collection that follows every task of a Python worker.

PySpark collects garbage after each task (``pyspark.daemon``), and the next one waits for it: 20 to 60 ms with
pyarrow, pandas and numba imported.
"""

from __future__ import annotations

import gc

__all__ = ["TASKS", "freeze", "freeze_imports"]

TASKS = 3  # tasks: the first imports most, the second may import more, the third finds everything
_begun = 0


def freeze() -> None:
    """Keep all objects that live now, without garbage, out of later collections.

    Objects without cycles are still freed with their last reference; cycles among these objects never are.  So only the
    first tasks of a worker call it.
    """
    gc.collect()
    gc.freeze()


def freeze_imports() -> None:
    """Freeze when one of the first tasks of this process begins; call it for each."""
    global _begun  # noqa: PLW0603 - of the process, which lives longer than any object of a task
    if _begun < TASKS:
        _begun += 1
        freeze()
