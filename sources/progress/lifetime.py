"""Adds listeners to a session's queries, and removes them before this process ends."""

from __future__ import annotations

import atexit
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from tidegate.spark_private import java_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener


_UNTIL_TOLD_MS = 2_000
_added: WeakKeyDictionary[SparkSession, WeakSet[StreamingQueryListener]] = WeakKeyDictionary()


def add_listener(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener to a session, and remove it at the end of this process at the latest.

    Spark's Java process lives a moment longer than this one, even if a script does not stop its session.  It would
    print a stack trace for every event that it can no longer deliver.

    A client of Spark Connect removes its listeners after it has closed the session, which client and server then
    report as an error.  So there ``spark.stop`` removes them first.
    """
    spark.streams.addListener(listener)
    if spark not in _added and not _is_classic(spark):
        of_spark = spark.stop

        def stop() -> None:
            _remove_each(spark)
            of_spark()

        spark.stop = stop  # type: ignore[method-assign]
    _added.setdefault(spark, WeakSet()).add(listener)


def _is_classic(spark: SparkSession) -> bool:
    return getattr(spark, "sparkContext", None) is not None


def _remove_each(spark: SparkSession) -> None:
    for listener in _added.pop(spark, ()):
        with suppress(Exception):
            spark.streams.removeListener(listener)


@atexit.register
def _remove_all() -> None:
    for spark in filter(_is_classic, [*_added]):
        java = java_context(spark)
        if java is not None:  # else it was stopped
            _remove(spark, java)


def _remove(spark: SparkSession, java: Any) -> None:
    # Java may have ended, or be about to end: then it calls no listener, and an error would not help.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    with suppress(Exception):
        # Deliver the events so far.
        java.sc().listenerBus().waitUntilEmpty(_UNTIL_TOLD_MS)
    _remove_each(spark)
    with suppress(Exception):
        # Let a running call end before the objects that it uses.
        java.sc().listenerBus().waitUntilEmpty(_UNTIL_TOLD_MS)
