"""Listeners of a session's queries, which end before this process does."""

from __future__ import annotations

import atexit
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

__all__ = ["add_listener"]

_UNTIL_TOLD_MS = 2_000
_added: WeakKeyDictionary[SparkSession, WeakSet[StreamingQueryListener]] = WeakKeyDictionary()


def add_listener(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener to a session, and take it away at the end of this process at the latest.

    Spark's Java process lives a moment longer than this one, also where a script does not stop its session.
    It would print a stack trace for every event of which it can no longer tell.
    """
    spark.streams.addListener(listener)
    if getattr(spark, "sparkContext", None) is not None:  # of Spark Connect the server calls nobody
        _added.setdefault(spark, WeakSet()).add(listener)


@atexit.register
def _remove_all() -> None:
    for spark, listeners in _added.items():
        java = spark.sparkContext._jsc  # noqa: SLF001 - PySpark tells it nowhere else
        if java is not None:  # else it was stopped
            _remove(spark, java, listeners)


def _remove(spark: SparkSession, java: Any, listeners: Iterable[StreamingQueryListener]) -> None:
    # Java may be gone, or about to go: then nobody is called either, and there is nothing to say of it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    with suppress(Exception):
        # What has happened by now is still told.
        java.sc().listenerBus().waitUntilEmpty(_UNTIL_TOLD_MS)
    for listener in listeners:
        with suppress(Exception):
            spark.streams.removeListener(listener)
    with suppress(Exception):
        # A call that goes on ends before what it calls does.
        java.sc().listenerBus().waitUntilEmpty(_UNTIL_TOLD_MS)
