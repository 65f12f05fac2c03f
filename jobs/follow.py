"""Follows a streaming query batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import TYPE_CHECKING

from tidegate.errors import ServerError
from tidegate.jobs.failures import is_lost_java, lost_java_forgiven
from tidegate.sources.progress.query import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_ASK_JAVA_EVERY_S = 2.0


def follow(spark: SparkSession, start: Callable[[], StreamingQuery]) -> Iterator[QueryProgress]:
    """Start a query and yield each batch when it is done, until the query ends.

    No other query may run in the session.  Raises the error of the query, and ServerError if Spark's Java process dies.
    If the caller stops iterating first, the query is stopped.
    """
    from tidegate.sources.progress.listener import ProgressListener

    events: Queue[str | None] = Queue()

    class Listener(ProgressListener):
        def on_progress(self, progress: str) -> None:
            events.put(progress)

        def on_end(self, run_id: str) -> None:  # noqa: ARG002
            events.put(None)

    def next_event(query: StreamingQuery) -> str | None:
        while True:
            with suppress(Empty):
                return events.get(timeout=_ASK_JAVA_EVERY_S)
            _ask_after(query)

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        query = start()
        try:
            while (event := next_event(query)) is not None:
                yield QueryProgress.parse(event)
            query.awaitTermination()
        finally:
            with lost_java_forgiven():
                query.stop()
    finally:
        with lost_java_forgiven():
            spark.streams.removeListener(listener)


def _ask_after(query: StreamingQuery) -> None:
    """Raise ServerError if no process is left that could send events."""
    try:
        _ = query.isActive
    except Exception as error:
        if is_lost_java(error):
            raise ServerError("Spark's Java process has died, and the query with it") from None
        raise
