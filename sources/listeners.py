"""Listeners of a session's queries, which end before this process does."""

from __future__ import annotations

import atexit
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

__all__ = ["add_listener"]

_UNTIL_TOLD_MS = 2_000


def add_listener(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener to a session, and take it away at the end of this process at the latest.

    Spark's Java process lives a moment longer than this one, also where a script does not stop its session.
    It would print a stack trace for every event of which it can no longer tell.
    """
    spark.streams.addListener(listener)
    if getattr(spark, "sparkContext", None) is not None:  # of Spark Connect the server calls nobody
        atexit.register(_remove, spark, listener)


def _remove(spark: SparkSession, listener: StreamingQueryListener) -> None:
    java = spark.sparkContext._jsc  # noqa: SLF001 - PySpark tells it nowhere else
    if java is None:  # it was stopped
        return
    # Java may be gone, or about to go: then nobody is called either, and there is nothing to say of it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    with suppress(Exception):
        events = java.sc().listenerBus()
        # What has happened by now is still told, and a call that goes on ends before what it calls does.
        events.waitUntilEmpty(_UNTIL_TOLD_MS)
        spark.streams.removeListener(listener)
        events.waitUntilEmpty(_UNTIL_TOLD_MS)
