"""Following a streaming query batch by batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Json
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import ServerError
from tidegate.jobs.failures import is_lost_java, lost_java_forgiven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["BatchProgress", "SplitProgress", "watch"]

_ASK_JAVA_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """Where a split stands after a batch, as the source reports it.

    state: a SplitState's value.
    next_ms: event time of its next record, or a lower bound of it; None: none is known.
    rows_left: up to where this run reads.
    """

    state: str
    next_ms: int | None
    rows_left: int


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One entry of Spark's progress, of a query with one tidegate source.

    number: the batch's id.
    rows: read in this batch.
    seconds: from trigger to commit.
    positions: of every split after the batch.
    splits: empty beyond 100 splits, which a report does not name.
    rows_left: of all splits, up to where this run reads.
    low_ms, bound_ms: of the source's plan for this batch.
    spark_watermark_ms: what Spark dropped rows by in this batch.
    state_rows: kept by all stateful operators after the batch.
    dropped_rows: what stateful operators count as dropped by the watermark.
    state: what the enumerator notes after the batch, beyond positions; None: nothing.
    planned: by this run, whose source says how it stands; not so of a batch that is done again after a restart.
    """

    number: int
    rows: int
    seconds: float
    positions: Mapping[SplitId, int]
    splits: Mapping[SplitId, SplitProgress] = field(default_factory=dict)
    rows_left: int = 0
    low_ms: int | None = None
    bound_ms: int | None = None
    spark_watermark_ms: int | None = None
    state_rows: int = 0
    dropped_rows: int = 0
    state: Json | None = None
    planned: bool = True

    @classmethod
    def from_json(cls, progress: Mapping[str, Any]) -> BatchProgress:
        """Read Spark's own JSON of a StreamingQueryProgress."""
        source = progress["sources"][0]
        report = source["latestOffset"] or {}
        end = Offset.from_json(source["endOffset"])
        watermark = progress.get("eventTime", {}).get("watermark")
        return cls(
            number=progress["batchId"],
            rows=progress["numInputRows"],
            seconds=progress["batchDuration"] / 1000,
            positions=end.progress.positions,
            splits={s: SplitProgress(*said) for s, said in report.get("bySplit", {}).items()},
            rows_left=report.get("rowsRemaining", 0),
            low_ms=report.get("low"),
            bound_ms=report.get("bound"),
            spark_watermark_ms=None if watermark is None else _ms(watermark),
            state_rows=sum(operator["numRowsTotal"] for operator in progress["stateOperators"]),
            dropped_rows=sum(operator["numRowsDroppedByWatermark"] for operator in progress["stateOperators"]),
            state=end.enumerator,
            planned=bool(report),
        )


def watch(spark: SparkSession, start: Callable[[], StreamingQuery]) -> Iterator[BatchProgress]:
    """Start a query and yield its batches as they are done, up to the query's end.

    No other query may run in the session.  Raises what the query failed with, and ServerError if
    Spark's Java process dies; the query is stopped when the caller goes away before its end.
    """
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    events: Queue[str | None] = Queue()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - PySpark's name
            """Nothing is known yet."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            events.put(event.progress.json)

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002, N802
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
                yield BatchProgress.from_json(json.loads(event))
            query.awaitTermination()
        finally:
            with lost_java_forgiven():
                query.stop()
    finally:
        with lost_java_forgiven():
            spark.streams.removeListener(listener)


def _ask_after(query: StreamingQuery) -> None:
    """Raise ServerError if nobody is left who could send an event."""
    try:
        _ = query.isActive
    except Exception as error:
        if is_lost_java(error):
            raise ServerError("Spark's Java process has died, and the query with it") from None
        raise


def _ms(iso: str) -> int:
    return round(datetime.fromisoformat(iso.replace("Z", "+00:00")).timestamp() * 1000)
