"""Follows a streaming query batch by batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidegate.jobs.session import lost_java_forgiven
from tidegate.sources.progress.query import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK_EVERY_S = 0.5


def follow(query: StreamingQuery) -> Iterator[QueryProgress]:
    """Yield each batch of a query when it is done, until the query ends.

    Batches that Spark forgot before the caller asked for the next one are left out: their numbers are missing.

    Raises the error of the query.  If the caller stops iterating first, the query is stopped.
    """
    is_active, shown = True, -1
    try:
        while is_active:
            is_active = query.isActive  # before its progress, so that none is missed
            for progress in _after(query, shown):
                if progress.batchId > shown:
                    shown = progress.batchId
                    yield QueryProgress.parse(progress.json)
            if is_active:
                time.sleep(_LOOK_EVERY_S)  # a listener would get each progress in a thread of its own
        query.awaitTermination()
    finally:
        with lost_java_forgiven():
            query.stop()


def _after(query: StreamingQuery, shown: int) -> Sequence[StreamingQueryProgress]:
    """Return the latest progress of a query, and the kept ones before it only if some of them may be new."""
    last = query.lastProgress
    if last is None or last.batchId <= shown:
        return []
    return [last] if last.batchId == shown + 1 else query.recentProgress
