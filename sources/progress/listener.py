"""A listener that gets Spark's progress as JSON.

Adds listeners to a session's queries, and removes them before this process ends.
"""

from __future__ import annotations

import atexit
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidegate.spark_private import before_stop, java_context, java_of_process, silence_java_bridge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener


class ProgressListener(StreamingQueryListener, ABC):
    """Receives each progress and the end of each query of a session, one call at a time."""

    @abstractmethod
    def on_progress(self, progress: str) -> None:
        """Take the JSON of a StreamingQueryProgress."""

    @abstractmethod
    def on_end(self, run_id: str) -> None:
        """Take the id of a run that has ended: by itself, by ``stop`` or by an error."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - PySpark's name
        """Ignore the start: nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take the JSON of an event.  Spark Connect calls this."""
        self.on_progress(event.progress.json)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take the end of a run.  Spark Connect calls this."""
        self.on_end(str(event.runId))

    @property
    def _jlistener(self) -> Any:
        # PySpark reads this to add and to remove the listener.
        if not hasattr(self, "_for_java"):
            self._for_java = java_of_process().PythonStreamingQueryListenerWrapper(_CalledByJava(self))
        return self._for_java


class _CalledByJava:
    """Takes the JSON of an event.

    PySpark's own class fetches each value by a call into Java.  That is a hundred calls for the metrics of a state
    store alone, before the listener sees the event.
    """

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Java's name
        """Fetch nothing, because the start of the query waits for this."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._listener.on_progress(event.progress().json())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Ignore the event: nothing is new."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._listener.on_end(event.runId().toString())

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_UNTIL_TOLD_MS = 2_000
_added: WeakKeyDictionary[SparkSession, WeakSet[StreamingQueryListener]] = WeakKeyDictionary()


def add_listener(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener to a session, and remove it at the end of this process at the latest.

    Spark's Java process lives a moment longer than this one, even if a script does not stop its session.  It would
    print a stack trace for every event that it can no longer deliver.

    A client of Spark Connect removes its listeners after it has closed the session, which client and server then
    report as an error, so there ``spark.stop`` removes them first.
    """
    spark.streams.addListener(listener)
    if spark not in _added and not _is_classic(spark):
        before_stop(spark, partial(_remove_each, spark))
    _added.setdefault(spark, WeakSet()).add(listener)


def await_events(spark: SparkSession) -> None:
    """Wait, 2 s at most, until listeners know the events so far.  A client of Spark Connect cannot wait."""
    with suppress(Exception):  # Java may have ended
        java_context(spark).sc().listenerBus().waitUntilEmpty(_UNTIL_TOLD_MS)


def _is_classic(spark: SparkSession) -> bool:
    return getattr(spark, "sparkContext", None) is not None


def _remove_each(spark: SparkSession) -> None:
    for listener in _added.pop(spark, ()):
        with suppress(Exception):
            spark.streams.removeListener(listener)


@atexit.register
def _remove_all() -> None:
    for spark in filter(_is_classic, [*_added]):
        if java_context(spark) is not None:  # else it was stopped
            silence_java_bridge()
            await_events(spark)
            _remove_each(spark)
            await_events(spark)  # a running call ends before the objects that it uses
