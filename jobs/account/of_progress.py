"""``tidegate.account``: what became of every row that a run of a query has read, from Spark's progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import OptionError, counted
from tidegate.jobs.account.account import (
    NO_ROWS,
    Account,
    BatchesAccount,
    Certainty,
    Figure,
    SourceAccount,
    added,
    balanced,
    total,
)
from tidegate.jobs.figures import count
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.query import PlanFacts, QueryProgress, SourceBatch, check_query
from tidegate.sources.tasks import shown_watermark_ms
from tidegate.spark_private import checkpoint_of, plan_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_T = TypeVar("_T")
UNKNOWN_BAD = "how many bad records, if any, a run set aside in its last batch"
_LOST = "whether records were lost: failOnDataLoss is false, and not every offset is known to have given a row"
_LEFT_OUT = {  # metrics of connectors
    "numFilesLeftOut": "the rows of objects that were left out, of which there are",
    "archiveMissingOffsets": "offsets that neither Kafka nor the archive holds, of which there are",
}


def account_of_run(progresses: Sequence[QueryProgress], state: Figure | None = None) -> Account:
    """Return the account of a run.

    progresses: the progresses of the run, the oldest first.
    state: the rows in Spark's state of windows, if they are counted.
    """
    tally = RunTally()
    for entry in progresses:
        if entry.ran:
            tally.add(entry)
    unsure = "" if progresses[0].first is not None else ", if there were any"
    cut = f"the batches of this run before batch {progresses[0].number}, which Spark no longer has{unsure}"
    return tally.account([cut] if is_cut(progresses) else [], state)


def is_cut(progresses: Sequence[QueryProgress]) -> bool:
    """Return whether Spark may have forgotten the first batches of a run."""
    return progresses[0].number not in {0, progresses[0].first}


def open_rows(first: int, state: Figure | None, *, has_state: bool) -> Figure:
    """Return the rows in open windows after some batches; Spark's state also holds rows of those before ``first``.

    state: the rows in Spark's state, if they are counted.
    """
    if not has_state:
        return NO_ROWS
    found = Figure(None, "at most") if state is None else state
    return Figure(found.rows, "at most" if found.bound == "exact" else "about") if first else found


def rows_by_split(begin: Offset, end: Offset) -> Mapping[SplitId, int]:
    """Return how many positions of each split a batch reads; empty if positions do not count rows."""
    if end.source != KafkaSource.connector or begin == end:
        return {}
    return {split: at - end.start_of(split, begin) for split, at in end.progress.positions.items()}


def skips(begin: Offset, end: Offset) -> Iterator[str]:
    """Yield a sentence for each split that begins again in a batch, at another position than it had reached."""
    for split, start in end.starts.items() if begin != end else ():
        before = begin.progress.positions.get(split)
        if before is not None and before != start:
            yield f"{split} went on at {start} and not at {before}: records were lost, or it holds others now"


def by_name(each: Iterable[Mapping[str, _T]]) -> dict[str, list[_T]]:
    """Return the values of several mappings by name, in the order in which the names first appear."""
    found: dict[str, list[_T]] = {}
    for named in each:
        for name, value in named.items():
            found.setdefault(name, []).append(value)
    return found


class RunTally:
    """Adds up the batches of a run, or of several with the same sources, the oldest first.

    Its size does not grow with the batches.  A source tells some figures of its run, so each run is tallied by itself.

    reads_once: whether the sink is known to read each row once; else the plans of the runs may prove it.
    forgotten: how many batches between others were not taken.
    """

    def __init__(self, *, reads_once: bool = False) -> None:
        self.forgotten = 0
        self._reads_once = reads_once
        self._parts: dict[tuple[str, int], dict[str, _SourceTally]] = {}
        self._batches: tuple[int, int] | None = None
        self._late, self._groups = NO_ROWS, 0
        self._last: QueryProgress | None = None

    def add(self, entry: QueryProgress, part: int = 0, names: Sequence[str] | None = None) -> None:
        """Take another batch.

        part: the number of the part of its run, if others are to have the share of the batches between two parts.
        names: of its sources, which may be others in another run; None: they are those of all runs, in one order.
        """
        first, last = self._batches or (entry.number, entry.number)
        self.forgotten += max(0, entry.number - last - 1)
        tallies, names = (
            self._parts.setdefault((entry.run_id, part), {}),
            names or [*map(str, range(len(entry.sources)))],
        )
        reads_once = self._reads_once or (entry.plan is not None and entry.plan.reads_once)
        rows = sum(
            tallies.setdefault(name, _SourceTally()).add(batch, reads_once=reads_once)
            for name, batch in zip(names, entry.sources, strict=True)
        )
        self._batches = (first, entry.number)
        is_known = entry.operators == 1 and entry.plan is not None and entry.plan.counts_late
        late = Figure(entry.late_dropped, "exact" if is_known or not entry.late_dropped else "about")
        # Spark counts what is left of a task's rows after they were grouped.
        self._late = total([self._late, late, Figure(rows, "at most") if entry.dropped_rows else NO_ROWS])
        self._groups += entry.dropped_rows
        self._last = entry

    def account(self, missing: Iterable[str] = (), state: Figure | None = None) -> Account:
        """Return the account of these batches.

        missing: what else is not known.
        state: the rows in Spark's state of windows, if they are counted.
        """
        sources, late, not_known = self.share()
        forgotten = (
            [f"{counted(self.forgotten, 'batch')} that Spark forgot before anyone looked"] if self.forgotten else []
        )
        return balanced(
            batches=self._batches,
            sources=[*sources.values()],
            late=late,
            open_=open_rows((self._batches or (0, 0))[0], state, has_state=self.has_state),
            missing=[*missing, *forgotten, *not_known],
        )

    def share(self) -> BatchesAccount:
        """Return the share of these batches, without that of others between them."""
        groups, operators = self._groups, 0 if self._last is None else self._last.operators
        dropped = [f"how many rows are in the {counted(groups, 'group')} that Spark dropped as late"] if groups else []
        # Groups that another operator drops may be results from rows of any batch.
        late = Figure(None) if groups and operators > 1 else self._late
        by_source = by_name(self._parts.values())
        sources = {name: added([part.account() for part in parts]) for name, parts in by_source.items()}
        runs = {run: tallies for (run, _), tallies in self._parts.items()}  # with the last part of each
        missing = [sentence for parts in by_source.values() for sentence in _skipped_or_lost(parts)]
        missing += [sentence for last_parts in by_name(runs.values()).values() for sentence in _left_out(last_parts)]
        return BatchesAccount(sources, late, [*dropped, *missing])

    @property
    def has_state(self) -> bool:
        """Whether Spark's state holds anything after the last batch."""
        return self._last is not None and self._last.state_rows > 0


class _SourceTally:
    """Adds up the share of one source in a part of a run.

    skips: sentences on what was skipped.
    """

    def __init__(self) -> None:
        self._by_split = Counter[SplitId]()
        self._planned = self._given = self._watermark_moves = 0
        self._reads_once = True
        self._connector = "another source"
        self._last: SourceProgress | None = None
        self._bad_before: int | None = None
        self._bad = 0
        self._bad_bound: Certainty = "exact"
        self.skips: list[str] = []

    def add(self, batch: SourceBatch, *, reads_once: bool) -> int:
        """Take the share of a batch; return how many rows it has at most."""
        progress, by_split = batch.progress, Counter[SplitId]()
        if batch.begin is not None and batch.end is not None:
            by_split.update(rows_by_split(batch.begin, batch.end))
            self.skips += skips(batch.begin, batch.end)
            self._connector = batch.end.source
            self._watermark_moves += shown_watermark_ms(batch.begin) != shown_watermark_ms(batch.end)
        planned = by_split.total() or (progress.planned_rows if progress is not None and batch.moved else 0)
        self._by_split += by_split
        self._planned += planned
        self._given += batch.input_rows or 0
        self._reads_once = self._reads_once and reads_once and batch.input_rows is not None
        if progress is not None:
            self._last = progress
        if batch.end is not None:  # an offset has the bad records of all batches before its own
            self._bad_before = batch.end.bad_records if self._bad_before is None else self._bad_before
            self._bad = (batch.end.bad_records if batch.bad_after is None else batch.bad_after) - self._bad_before
        may_be_bad = self._last is None or self._last.bad_records_total is not None
        self._bad_bound = "at least" if may_be_bad and planned and batch.bad_after is None else "exact"
        return max(planned, batch.input_rows or 0)

    def account(self) -> SourceAccount:
        """Return the share."""
        last, bad = self._last, self._bad
        of_watermarks = self._watermark_moves if last is not None and last.watermark_rows else 0
        given, set_aside = self._given - of_watermarks + bad, Figure(bad, self._bad_bound)
        if not self._reads_once or (self._by_split and given > self._planned):
            read = Figure(self._planned, "at most") if self._by_split else Figure(self._planned or given, "about")
        elif self._by_split and given == self._planned:
            read, set_aside = Figure(given), Figure(bad)
        else:  # holes in the log, or estimates
            read = Figure(given, self._bad_bound)
        unselected = NO_ROWS
        if last is not None and last.selects_rows:
            left = None if read.bound in {"at most", "about"} else self._planned - (read.rows or 0)
            unselected = Figure(left, "exact" if read.bound == "exact" else "at most")
        reads = self._connector if last is None else last.reads
        return SourceAccount(reads, read, set_aside, dict(self._by_split), unselected)

    @property
    def may_have_lost(self) -> bool:
        """Whether records may have been lost while they were read."""
        skips_lost = self._last is not None and self._last.skips_lost and bool(self._by_split)
        return skips_lost and self.account().read != Figure(self._planned)

    def left_out(self, metric: str) -> int:
        """Return a metric of what the run has left out."""
        return 0 if self._last is None else int(self._last.metrics.get(metric, 0))


def _skipped_or_lost(parts: Sequence[_SourceTally]) -> Iterator[str]:
    """Yield sentences on what was skipped, on bad records that are not known, and on what may have been lost."""
    for part in parts:
        yield from part.skips
    if any(part.account().set_aside.bound != "exact" for part in parts):
        yield UNKNOWN_BAD
    if any(part.may_have_lost for part in parts):
        yield _LOST


def _left_out(runs: Sequence[_SourceTally]) -> Iterator[str]:
    """Yield sentences on what runs have left out."""
    for metric, sentence in _LEFT_OUT.items():
        if number := sum(run.left_out(metric) for run in runs):
            yield f"{sentence} {count(number)}"


KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_COUNT = "count"


def account(query: StreamingQuery) -> Account:
    """Return what became of every row that this run of a query has read, running or ended.

    A row is in a window, closed or open, was dropped as late, or was set aside as a bad record.  Figures that Spark
    does not give exactly are marked as bounds, and ``missing`` says what is not known.

    Spark keeps the last 100 batches of a run (``spark.sql.streaming.numRecentProgressUpdates``).  Rows in open windows
    are counted by a Spark job over the state, if the query is one aggregation with a count.

    Raises OptionError if ``query`` is not a query, or has not ended its first batch.
    """
    from pyspark.sql import SparkSession

    check_query("account", query)
    progresses = progress_of_run(query)
    if not progresses:
        raise OptionError(f"the query {query.name or query.id} has no account yet: wait for its first batch")
    found = account_of_run(progresses)
    checkpoint = checkpoint_of(query)
    if found.open.bound == "exact" or progresses[-1].operators > 1 or checkpoint is None:
        return found
    last = max((entry.number for entry in progresses if entry.ran), default=None)  # another may end meanwhile
    state = rows_in_state(SparkSession.active(), checkpoint, progresses[-1].plan, last)
    return found if state is None else account_of_run(progresses, state)


def progress_of_run(query: StreamingQuery) -> list[QueryProgress]:
    """Return the entries of a run that Spark keeps, with its first batch, and with what its plan proves."""
    from pyspark.sql import SparkSession

    from tidegate.sources.progress.listener import first_batch

    entries = [QueryProgress.parse(progress.json) for progress in query.recentProgress]
    if not entries:
        return []
    last, plan = entries[-1], None
    with suppress(Exception):  # a client of Spark Connect has no plan, and others may not be allowed to see it
        plan = PlanFacts.of(plan_steps(query), len(last.sources))
    first: int | None = entries[0].number
    if first and len(entries) >= int(SparkSession.active().conf.get(KEPT) or 0) - 1:  # Spark keeps one fewer
        first = first_batch(last.run_id)
    entries[-1] = last.with_bad_records()
    return [replace(entry, plan=plan, first=first) for entry in entries]


def rows_in_state(
    spark: SparkSession, checkpoint: str, plan: PlanFacts | None = None, batch: int | None = None
) -> Figure | None:
    """Return how many rows are in the groups of Spark's aggregation, by its count, if that is known.

    checkpoint: the checkpoint of a query with one stateful operator.
    plan: what the plan of the query proves, if it is known.  Without it, the count of windows that do not overlap is an
        estimate: it may leave out nulls, or steps may multiply rows.
    batch: after which batch; None: after the last.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    if plan is not None and not plan.counts_open:
        return None
    with suppress(PySparkException, Py4JError):  # the state of another operator, or one that has just been cleaned up
        state = spark.read.options(**{} if batch is None else {"batchId": batch}).format("statestore").load(checkpoint)
        keys, values = state.select("key.*").columns, state.select("value.*").schema.fields
        if plan is None and ("window" not in keys or _overlap(state.select("key.window.start", "key.window.end"))):
            return None
        counts = [f"_{place}" for place, field in enumerate(values) if field.name == _COUNT]
        if plan is not None and plan.sums_records:
            counts = ["_0"]
        # Aggregates may share a name, such as two counts.  Of those, "value.*" has the values of the last one only.
        fields = [StructField(f"_{place}", field.dataType) for place, field in enumerate(values)]
        numbered = state.select(f.col("value").cast(StructType(fields)).alias("value"))
        sums = numbered.agg(*(f.sum(f"value.{place}") for place in counts)).first() if counts else None
        if sums is not None:
            bound: Certainty = "about" if plan is None else "exact" if plan.counts_all else "at least"
            return Figure(max(rows or 0 for rows in sums), bound)
    return None


def _overlap(windows: DataFrame) -> bool:
    """Return whether a row may be in two of the windows."""
    in_order = sorted((row[0], row[1]) for row in windows.distinct().collect())
    return any(begin < end for (_, end), (begin, _) in pairwise(in_order))
