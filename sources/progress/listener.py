"""A listener that gets Spark's progress as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidegate.spark_private import java_of_process


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
