"""Keeps what a Python worker has imported out of the garbage collection that follows every task.

PySpark collects garbage after each task (``pyspark.daemon``), and the next one waits for it: 20 to 60 ms with
pyarrow, pandas and numba imported.
"""

from __future__ import annotations

import gc

__all__ = ["TASKS", "freeze", "freeze_imports"]

TASKS = 3  # the first imports most, the second may import more, the third finds all there
_begun = 0


def freeze() -> None:
    """Keep all that lives now, and no garbage, out of later collections.

    What is freed by its last reference still is; only cycles among what lives now would never be.  So this is for
    the first tasks of a worker, not for each.
    """
    gc.collect()
    gc.freeze()


def freeze_imports() -> None:
    """Freeze when one of the first tasks of this process begins; call it for each."""
    global _begun  # noqa: PLW0603 - of the process, which lives longer than any object of a task
    if _begun < TASKS:
        _begun += 1
        freeze()
