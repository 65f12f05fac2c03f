"""Lets Python workers of Spark end without a stack trace when Java has closed their connection.

Java closes it when the session ends, when a worker was idle for a minute, and when a task needs no more rows.
PySpark's daemon then prints a BrokenPipeError for each worker.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace
from typing import Any


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
