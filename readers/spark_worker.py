"""Lets Python workers of Spark end quietly, and rest less between their tasks.

Java closes the connection of a worker when the session ends, when the worker was idle for a minute, and when a task
needs no more rows.  PySpark's daemon then prints a BrokenPipeError for each worker.

PySpark collects garbage after each task (``pyspark.daemon``), and the next task waits for that.  With pyarrow, pandas
and numba imported, it waits for 20 to 60 ms.
"""

from __future__ import annotations

import gc
import sys
import traceback
from types import SimpleNamespace
from typing import Any

TASKS = 3  # the first task imports most modules, the second may import more, and the third has all of them
_begun = 0


def _print_exc() -> None:
    if not isinstance(sys.exc_info()[1], ConnectionError):  # nobody is there to take the task's end
        traceback.print_exc()


QUIET_TRACEBACK = SimpleNamespace(print_exc=_print_exc, format_exc=traceback.format_exc)
"""What PySpark's daemon uses of the module ``traceback``."""


def end_quietly() -> None:
    """Make this process quiet, if it is a worker of PySpark's own daemon.

    Called whenever such a worker gets a source, so that its first task is quiet, too.  Spark plans batch queries in
    workers of that daemon, whatever ``spark.python.daemon.module`` is.
    """
    main: Any = sys.modules["__main__"]
    if getattr(main.__spec__, "name", None) == "pyspark.daemon":
        main.traceback = QUIET_TRACEBACK


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
