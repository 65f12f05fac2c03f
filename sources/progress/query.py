"""Spark's progress of a query, typed, with the progress of tidegate's sources in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.bad_records import bad_records_noted, offset_digest
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.source_progress import SourceProgress, parse_utc, utc_time
from tidegate.errors import OptionError
from tidegate.sources.progress.plan import PlanFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener as Listener
    from pyspark.sql.streaming.query import StreamingQuery


_LOG = logging.getLogger("tidegate.progress")
LATE_DROPPED = "numLateRecordsDropped"
"""Flink's name of the metric that counts the rows that windows drop as late."""
WINDOWS = "windows"
"""The metric with what windows of the operator keep in the buckets of a batch: ``bucket``, ``windows`` and ``due``."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """The share of one source of a query in a batch.

    progress: the progress of the source; None: the source is not tidegate's, or the batch is repeated after a restart.
    moved: whether the batch reads anything of the source.
    begin, end: the offsets of the batch; None: the source is not tidegate's.
    input_rows: how many rows it read, by Spark's own count, which depends on the sink.
    stored: the end of the batch as the offset log of the checkpoint has it, as JSON.
    bad_after: how many bad records the query had after the batch, if its planner has noted that.
    """

    progress: SourceProgress | None
    moved: bool = True
    begin: Offset | None = None
    end: Offset | None = None
    input_rows: int = 0
    stored: Any = None
    bad_after: int | None = None

    @classmethod
    def from_json(cls, source: Json, committed: datetime | None = None) -> SourceBatch:
        """Read a source's entry in Spark's progress."""
        latest = json_object(source.get("latestOffset"))
        end = Offset.recognized(json_object(source["endOffset"]))
        # In the offset of Spark's own source, a topic named "planner" would be a dict; our planner's name is a text.
        is_ours = isinstance(latest.get("planner"), str)
        return cls(
            progress=SourceProgress.from_json(latest, committed) if is_ours else None,
            moved=source["startOffset"] != source["endOffset"],
            begin=None if end is None else Offset.recognized(json_object(source["startOffset"])) or Offset(),
            end=end,
            input_rows=source["numInputRows"],
            stored=_parsed(source["endOffset"]),
        )

    def with_bad_records(self) -> SourceBatch:
        """Return the batch with what its planner has noted on the machine of the driver."""
        if self.progress is None or self.progress.bad_records_total is None:
            return self
        return replace(self, bad_after=bad_records_noted(self.progress.planner).get(offset_digest(self.stored)))


class KeptWindows(NamedTuple):
    """What windows of tidegate's operator keep in one bucket.

    number: how many windows are open.
    due: when the first of them is due in ms; None: it waits for rows.
    """

    number: int
    due: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """One entry of Spark's progress: a batch of a query.

    id, run_id, name: identify the query; the name may be None.
    began: when the batch was triggered, in UTC.
    ran: whether there was a batch; Spark also tells of triggers without one, by the number of the next.
    rows: how many rows the batch read, by Spark's own count.
    seconds: the time from trigger to commit.
    watermark: Spark's watermark, behind which it dropped rows in this batch; None: there was none yet, or none is
        needed.
    state_rows: how many rows all stateful operators keep after the batch.
    state_bytes: how many bytes they take, in memory and in RocksDB's files.
    dropped_rows: how many rows were dropped behind the watermark, as stateful operators count them.
    late_dropped: how many rows windows of tidegate dropped as late in this batch (Flink: numLateRecordsDropped).
    windows: what windows of tidegate's operator keep after the batch, by operator and bucket; only buckets that the
        batch called.
    operators: how many stateful operators the query has.
    sink: Spark's description of the sink.
    sources: the query's sources, in Spark's order.
    plan: what the plan of its run proves; None: it is not known.
    first: the first batch of its run; None: it is not known.
    """

    id: str
    run_id: str
    name: str | None
    began: datetime
    number: int
    ran: bool
    rows: int
    seconds: float
    watermark: datetime | None
    state_rows: int
    state_bytes: int
    dropped_rows: int
    late_dropped: int
    windows: Mapping[tuple[str, int], KeptWindows]
    operators: int
    sink: str
    sources: tuple[SourceBatch, ...]
    plan: PlanFacts | None = None
    first: int | None = None

    @classmethod
    def parse(cls, text: str) -> QueryProgress:
        """Read the JSON of a StreamingQueryProgress."""
        return cls.of(json.loads(text))

    @classmethod
    def of(cls, entry: Json) -> QueryProgress:
        """Read a StreamingQueryProgress from its JSON object."""
        operators, observed = entry["stateOperators"], entry.get("observedMetrics", {})
        began, seconds = parse_utc(entry["timestamp"]), entry["batchDuration"] / 1000
        committed = began + timedelta(seconds=seconds)
        return cls(
            id=entry["id"],
            run_id=entry["runId"],
            name=entry["name"],
            began=began,
            number=entry["batchId"],
            ran="addBatch" in entry.get("durationMs", {"addBatch": 0}),
            # Spark Connect does not send the sum.
            rows=sum(source["numInputRows"] for source in entry["sources"]),
            seconds=seconds,
            watermark=_watermark(entry.get("eventTime", {}).get("watermark")),
            state_rows=sum(operator["numRowsTotal"] for operator in operators),
            state_bytes=sum(
                operator.get("memoryUsedBytes", 0) + operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0)
                for operator in operators
            ),
            dropped_rows=dropped_rows(entry),
            late_dropped=late_dropped(entry),
            windows={
                (name, kept["bucket"]): KeptWindows(kept["windows"], kept.get("due"))
                for name, metrics in observed.items()
                if LATE_DROPPED in metrics
                for kept in metrics.get(WINDOWS, ())
            },
            operators=len(operators),
            sink=entry.get("sink", {}).get("description", ""),
            sources=tuple(SourceBatch.from_json(source, committed) for source in entry["sources"]),
        )

    def with_bad_records(self) -> QueryProgress:
        """Return the entry with what its planners have noted of bad records, if it is of the last batches of a run."""
        return replace(self, sources=tuple(batch.with_bad_records() for batch in self.sources))

    @property
    def source(self) -> SourceBatch:
        """The first source, often the only one."""
        return self.sources[0]

    @property
    def source_progress(self) -> list[SourceProgress]:
        """The progress of tidegate's sources, in Spark's order."""
        return [source.progress for source in self.sources if source.progress is not None]


def dropped_rows(entry: Json) -> int:
    """Return how many rows stateful operators dropped behind Spark's watermark, by the JSON of a progress."""
    return sum(operator["numRowsDroppedByWatermark"] for operator in entry["stateOperators"])


def late_dropped(entry: Json) -> int:
    """Return how many rows windows of tidegate dropped as late, by the JSON of a progress."""
    return sum(metrics.get(LATE_DROPPED, 0) for metrics in entry.get("observedMetrics", {}).values())


def progress(query: StreamingQuery) -> list[SourceProgress]:
    """Return the progress of a query's tidegate sources after its last batch, in Spark's order.

    Empty before the first progress.  Other sources are left out.  The result stays the same until the next batch is
    done.

    Raises OptionError if ``query`` is no streaming query.
    """
    check_query("progress", query)
    last = query.lastProgress
    return [] if last is None else QueryProgress.parse(last.json).source_progress


def check_query(call: str, query: object) -> None:
    """Raise OptionError unless something is a streaming query, of a classic session or of Spark Connect."""
    if not hasattr(query, "recentProgress"):
        raise OptionError(f"{call}() takes a query, as start() returns it, and not a {type(query).__name__}")


def on_progress(spark: SparkSession, callback: Callable[[str, int, list[SourceProgress]], object]) -> Listener:
    """Call a function after every batch, of all queries of the session that have a tidegate source.

    callback: takes the query's name, or its id if it has none; the batch's id; and the result of ``progress``.  It is
        called in a thread of Spark, one call at a time: a slow call delays the next call, never the query.  Its errors
        are logged, and do not end the query.

    Returns the listener; ``spark.streams.removeListener`` ends the calls.

    Raises OptionError if ``callback`` is no function.
    """
    if not callable(callback):
        raise OptionError(f"on_progress() calls a function after every batch, and {callback!r} is none")
    from tidegate.sources.progress.listener import ProgressListener, add_listener

    class Caller(ProgressListener):
        def on_progress(self, progress: str) -> None:
            try:
                entry = QueryProgress.parse(progress)
                if source_progress := entry.source_progress:
                    callback(entry.name or entry.id, entry.number, source_progress)
            except Exception:  # noqa: BLE001 - it is the caller's code
                _LOG.exception("a callback of tidegate.on_progress failed")

        def on_end(self, run_id: str) -> None:
            """Nothing to do."""

    listener = Caller()
    add_listener(spark, listener)
    return listener


def json_object(value: Any) -> Json:
    """Return an offset or a progress as a JSON object; an empty object for the values of other sources."""
    value = _parsed(value)
    return value if isinstance(value, dict) else {}


def _parsed(value: Any) -> Any:
    """Return an offset or a progress as JSON, which Spark Connect has as a text; None: the text is not JSON."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return None
    return value


def _watermark(text: str | None) -> datetime | None:
    """Return Spark's watermark; None: there is none yet, for which Spark writes the epoch."""
    at = None if text is None else parse_utc(text)
    return None if at == utc_time(0) else at
