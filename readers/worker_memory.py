"""Keeps what a Python worker has imported out of the garbage collection that follows every task."""

from __future__ import annotations

import gc

__all__ = ["freeze_imports"]

_TASKS = 3  # the first imports the readers, the second may import more, the third finds all there
_begun = 0


def freeze_imports() -> None:
    """Keep all that lives now, and no garbage, out of later collections; in a worker's first tasks only.

    PySpark collects garbage after every task (``pyspark.daemon``), and the next one waits for it: 20 to 60 ms
    with pyarrow, pandas and numba imported.  Called when a task begins, in the process that runs it.
    """
    global _begun  # noqa: PLW0603 - of the process, which lives longer than any object of a task
    if _begun < _TASKS:
        _begun += 1
        gc.collect()
        gc.freeze()
