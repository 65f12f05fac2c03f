"""Follows a streaming query batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidegate.jobs.failures import lost_java_forgiven
from tidegate.sources.progress.query import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK_EVERY_S = 1


def follow(start: Callable[[], StreamingQuery]) -> Iterator[QueryProgress]:
    """Start a query and yield each batch when it is done, until the query ends.

    Raises the error of the query.  If the caller stops iterating first, the query is stopped.
    """
    query = start()
    shown = -1
    try:
        has_ended: bool | None = False
        while not has_ended:
            has_ended = query.awaitTermination(_LOOK_EVERY_S)
            for progress in query.recentProgress:
                if progress.batchId > shown:
                    shown = progress.batchId
                    yield QueryProgress.parse(progress.json)
    finally:
        with lost_java_forgiven():
            query.stop()
