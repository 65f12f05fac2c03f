"""Lets Python workers of Spark end without a stack trace when Java has closed their connection.

Java closes it when the session ends, when a worker was idle for a minute, and when a task needs no more rows.
PySpark's daemon then prints a BrokenPipeError for each worker.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

__all__ = ["end_quietly", "quiet"]

_Worker: TypeAlias = Callable[[socket.socket, bool], int]


def quiet(worker: _Worker) -> _Worker:
    """Return PySpark's function that runs one task, without the error if nobody is there to take the task's end."""

    @wraps(worker)
    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except ConnectionError:
            return 1  # the process ends

    return run


def end_quietly() -> None:
    """Make the later tasks of this process quiet, if it is a worker of PySpark's own daemon.

    Called whenever such a worker gets a source.  Spark plans batch queries in workers of that daemon, whatever
    ``spark.python.daemon.module`` is.
    """
    main: Any = sys.modules["__main__"]
    if getattr(main.__spec__, "name", None) == "pyspark.daemon" and not hasattr(main.worker, "__wrapped__"):
        main.worker = quiet(main.worker)
