"""Keeps imported modules out of the garbage collection that follows every task of a Python worker.

PySpark collects garbage after each task (``pyspark.daemon``), and the next task waits for that.  With pyarrow, pandas
and numba imported, it waits for 20 to 60 ms.
"""

from __future__ import annotations

import gc

TASKS = 3  # the first task imports most modules, the second may import more, and the third has all of them
_begun = 0


def freeze() -> None:
    """Keep all objects that live now out of later collections.

    Garbage is collected first.  Objects are still freed with their last reference, but cycles among them never are.  So
    only the first tasks of a worker call it.
    """
    gc.collect()
    gc.freeze()


def freeze_imports() -> None:
    """Call ``freeze`` if this is one of the first tasks of this process.  Called when each task begins."""
    global _begun  # noqa: PLW0603 - the count belongs to the process, which outlives the objects of a task
    if _begun < TASKS:
        _begun += 1
        freeze()
