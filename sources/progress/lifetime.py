"""Adds listeners to a session's queries, and removes them before this process ends."""

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
    """Add a listener to a session, and remove it at the end of this process at the latest.

    Spark's Java process lives a moment longer than this one, even if a script does not stop its session.  It would
    print a stack trace for every event that it can no longer deliver.
    """
    spark.streams.addListener(listener)
    if getattr(spark, "sparkContext", None) is not None:  # Spark Connect's server calls no listener
        _added.setdefault(spark, WeakSet()).add(listener)


@atexit.register
def _remove_all() -> None:
    for spark, listeners in _added.items():
        java = spark.sparkContext._jsc  # noqa: SLF001 - PySpark tells it nowhere else
        if java is not None:  # else it was stopped
            _remove(spark, java, listeners)


def _remove(spark: SparkSession, java: Any, listeners: Iterable[StreamingQueryListener]) -> None:
    # Java may have ended, or be about to end: then it calls no listener, and an error would not help.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    with suppress(Exception):
        # Deliver the events so far.
        java.sc().listenerBus().waitUntilEmpty(_UNTIL_TOLD_MS)
    for listener in listeners:
        with suppress(Exception):
            spark.streams.removeListener(listener)
    with suppress(Exception):
        # Let a running call end before the objects that it uses.
        java.sc().listenerBus().waitUntilEmpty(_UNTIL_TOLD_MS)
