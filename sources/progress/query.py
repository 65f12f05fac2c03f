"""Spark's progress of a query, typed, with the progress of tidegate's sources in it, and what its plan proves.

Only steps of a plan that are known prove anything: each of them reads its rows once, and passes a row on at most once.
Any other step, such as a join, may read rows twice or not to their end, or multiply them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.application import bad_records_noted, offset_digest
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.source_progress import SourceProgress, parse_utc, utc_time
from tidegate.errors import OptionError
from tidegate.sources.add_on import LATE_DROPPED, MORE_RECORDS, PASSING_STEPS, RECORDS

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_SOURCE = re.compile(r"~?Streaming\w+Relation\b")
_PASSES_ON = re.compile(
    r"""~?(?:
    (?:Project|Filter|Union|SubqueryAlias|View|EventTimeWatermark|CollectMetrics|Streaming\w+Relation)\b
    |(?:Aggregate|Distinct|Deduplicate|DeduplicateWithinWatermark)\b
    |Repartition\b|RepartitionByExpression\b(?!.*\ (?:ASC|DESC)\ NULLS\ )  # to cut ranges, Spark reads a sample first
    # Sinks of Spark.  The function of foreachBatch may read twice, and a table may want ranges.
    |WriteToMicroBatchDataSource\ (?:MemorySink|noop-table|console|ForeachSink|KafkaTable)(?![.\w-])
    |WriteToMicroBatchDataSourceV1\ FileSink\[
    |LocalRelation\ <empty>)  # transformWithState without a first state
    """,
    re.VERBOSE | re.DOTALL,
)
_MULTIPLIES = re.compile(r"~?(?:Generate|Expand|TransformWithState\w*)\b")
_AGGREGATE = re.compile(r"~?Aggregate\b")
_COUNTS_LATE = re.compile(rf"~?CollectMetrics .* AS {LATE_DROPPED}#", re.DOTALL)
_SUM_OF_RECORDS = re.compile(rf"\bsum\({RECORDS}#")
_COUNT_OF_ALL = re.compile(rf"\bcount\(1\)(?! FILTER|#)|{_SUM_OF_RECORDS.pattern}")


class PlanFacts(NamedTuple):
    """What the plan of a run proves.  The plan itself may hold secrets, such as keys.

    reads_once: each row of a batch is read once.
    counts_late: what add-ons drop as late are rows of the sources.
    counts_open: what Spark's aggregation counts are rows of the sources.
    counts_all: it leaves out none.
    sums_records: it adds up for how many records of the sources a row stands, and that is the first of its aggregates.
    """

    reads_once: bool
    counts_late: bool
    counts_open: bool
    counts_all: bool
    sums_records: bool = False

    @classmethod
    def of(cls, steps: Sequence[str], sources: int) -> PlanFacts:
        """Return the facts of a plan.

        steps: the steps as Spark shows them, each before those that it reads from.
        sources: how many different sources the query has.
        """
        late, open_ = (
            next((at for at, step in enumerate(steps) if counting.match(step)), len(steps))
            for counting in (_COUNTS_LATE, _AGGREGATE)
        )
        return cls(
            _pass_on([step for step in steps if not _MULTIPLIES.match(step)], sources),
            _pass_on(steps[late:], sources),
            _pass_on(steps[open_:], sources),
            all(_COUNT_OF_ALL.search(step) for step in steps if _AGGREGATE.match(step)),
            any(_SUM_OF_RECORDS.search(step) for step in steps if _AGGREGATE.match(step)),
        )


def _pass_on(steps: Sequence[str], sources: int) -> bool:
    """Return whether each row of each source is read once and passed on at most once; so no source is used twice."""
    passing = [_PASSES_ON, *PASSING_STEPS]
    return (
        all(any(known.match(step) for known in passing) for step in steps)
        and sum(1 for step in steps if _SOURCE.match(step)) == sources
    )


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """The share of one source of a query in a batch.

    progress: the progress of the source; None: the source is not tidegate's, or the batch is repeated after a restart.
    moved: whether the batch reads anything of the source.
    begin, end: the offsets of the batch; None: the source is not tidegate's.
    input_rows: how many rows it read, by Spark's own count, which depends on the sink.  None: tasks make fewer rows
        of those that they read, as windows ask them to, and the query has several sources.
    stored: the end of the batch as the offset log of the checkpoint has it, as JSON.
    bad_after: how many bad records the query had after the batch, if its planner has noted that.
    """

    progress: SourceProgress | None
    moved: bool = True
    begin: Offset | None = None
    end: Offset | None = None
    input_rows: int | None = 0
    stored: Any = None
    bad_after: int | None = None

    @classmethod
    def from_json(cls, source: Json, committed: datetime | None = None, more_records: int | None = None) -> SourceBatch:
        """Read a source's entry in Spark's progress.

        more_records: by how many its records are more than the rows that its tasks made; None: it is not known.
        """
        latest = json_object(source.get("latestOffset"))
        end = Offset.recognized(json_object(source["endOffset"]))
        # In the offset of Spark's own source, a topic named "planner" would be a dict; our planner's name is a text.
        is_ours = isinstance(latest.get("planner"), str)
        progress = SourceProgress.from_json(latest, committed) if is_ours else None
        is_made = progress is not None and progress.row_stage is not None and source["numInputRows"] > 0
        may_be_fewer = is_made and more_records is None
        return cls(
            progress=progress,
            moved=source["startOffset"] != source["endOffset"],
            begin=None if end is None else Offset.recognized(json_object(source["startOffset"])) or Offset(),
            end=end,
            input_rows=None if may_be_fewer else source["numInputRows"] + (more_records or 0),
            stored=_parsed(source["endOffset"]),
        )

    def with_bad_records(self) -> SourceBatch:
        """Return the batch with what its planner has noted on the machine of the driver."""
        if self.progress is None or self.progress.bad_records_total is None:
            return self
        return replace(self, bad_after=bad_records_noted(self.progress.planner).get(offset_digest(self.stored)))


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
    late_dropped: how many rows add-ons dropped as late in this batch (Flink: numLateRecordsDropped).
    observed: the metrics of each observation by its name (Spark: ``DataFrame.observe``).
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
    observed: Mapping[str, Json]
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
        more = [metrics[MORE_RECORDS] for metrics in observed.values() if MORE_RECORDS in metrics]
        more_records = more[0] if len(entry["sources"]) == len(more) == 1 else None
        return cls(
            id=entry["id"],
            run_id=entry["runId"],
            name=entry["name"],
            began=began,
            number=entry["batchId"],
            ran="addBatch" in entry.get("durationMs", {"addBatch": 0}),
            # Spark Connect does not send the sum.
            rows=sum(source["numInputRows"] for source in entry["sources"]) + sum(more),
            seconds=seconds,
            watermark=_watermark(entry.get("eventTime", {}).get("watermark")),
            state_rows=sum(operator["numRowsTotal"] for operator in operators),
            state_bytes=sum(
                operator.get("memoryUsedBytes", 0) + operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0)
                for operator in operators
            ),
            dropped_rows=dropped_rows(entry),
            late_dropped=late_dropped(entry),
            observed=observed,
            operators=len(operators),
            sink=entry.get("sink", {}).get("description", ""),
            sources=tuple(SourceBatch.from_json(source, committed, more_records) for source in entry["sources"]),
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
    """Return how many rows add-ons dropped as late, by the JSON of a progress."""
    return sum(metrics.get(LATE_DROPPED, 0) for metrics in entry.get("observedMetrics", {}).values())


def progress(query: StreamingQuery) -> list[SourceProgress]:
    """Return the progress of a query's tidegate sources after its last batch, in Spark's order.

    Empty before the first progress.  Other sources are left out.  The result stays the same until the next batch is
    done.

    Raises OptionError if ``query`` is not a streaming query.
    """
    check_query("progress", query)
    last = query.lastProgress
    return [] if last is None else QueryProgress.parse(last.json).source_progress


def check_query(call: str, query: object) -> None:
    """Raise OptionError unless something is a streaming query, of a classic session or of Spark Connect."""
    if not hasattr(query, "recentProgress"):
        raise OptionError(f"{call}() takes a query, as start() returns it, and not a {type(query).__name__}")


def check_session(spark: object) -> None:
    """Raise OptionError unless something is a Spark session, classic or of Spark Connect."""
    if isinstance(spark, type) or not hasattr(spark, "dataSource"):
        given = f"the class {spark.__name__}" if isinstance(spark, type) else f"a {type(spark).__name__}"
        raise OptionError(
            f"spark is {given}, but it must be a session, as SparkSession.builder.getOrCreate() returns it"
        )


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
    """Return Spark's watermark, or None before the first, for which Spark writes the epoch."""
    at = None if text is None else parse_utc(text)
    return None if at == utc_time(0) else at
