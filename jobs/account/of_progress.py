"""The account of runs of a query, from Spark's progress.  Pure logic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import counted
from tidegate.jobs.account.account import (
    NO_ROWS,
    Account,
    BatchesAccount,
    Certainty,
    Figure,
    SourceAccount,
    added,
    balanced,
)
from tidegate.jobs.figures import count
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.query import QueryProgress, SourceBatch
from tidegate.sources.tasks import shown_watermark_ms

KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_READS_TWICE = "ForeachBatchSink"  # an action of the function may read a batch again, or not at all
_NOT_COUNTED = (
    "rows in open windows are told by the count(*) of a single aggregation from its first batch on, if no step of the "
    "query multiplies rows"
)
_LEFT_OUT = {  # metrics of connectors
    "numFilesLeftOut": "the rows of objects that were left out, of which there are",
    "archiveMissingOffsets": "offsets that neither Kafka nor the archive holds, of which there are",
}


def account_of_run(progresses: Sequence[QueryProgress], kept: int, state: Figure | None = None) -> Account:
    """Return the account of a run.

    progresses: the progresses of the run, the oldest first.
    kept: how many entries Spark keeps, by its setting.
    state: the rows in Spark's state of windows, if they are counted.
    """
    tally = RunTally()
    for entry in progresses:
        tally.add(entry)
    cut = f"the batches of this run before batch {progresses[0].number}, which Spark no longer has"
    return tally.account([cut] if is_cut(progresses, kept) else [], state)


def is_cut(progresses: Sequence[QueryProgress], kept: int) -> bool:
    """Return whether Spark has forgotten the first batches of a run, of which it keeps ``kept`` entries less one."""
    return progresses[0].number > 0 and len(progresses) >= kept - 1


def open_rows(first: int, state: Figure | None, *, has_state: bool) -> Figure:
    """Return the rows in open windows after some batches; Spark's state also holds rows of those before ``first``.

    state: the rows in Spark's state, if they are counted.
    """
    found = Figure(None, "at most") if state is None else state
    return NO_ROWS if not has_state else Figure(found.rows, "at most") if first else found


def why_open(open_: Figure) -> list[str]:
    """Return the reason why the rows in open windows are a bound, if they are."""
    return [] if open_.bound == "exact" else [_NOT_COUNTED]


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


class RunTally:
    """Adds up the batches of a run, or of several with the same sources, the oldest first.

    Its size does not grow with the batches.  A source tells some figures of its run, so each run is tallied by itself.

    forgotten: how many batches between others were not taken.
    """

    def __init__(self) -> None:
        self.forgotten = 0
        self._parts: dict[tuple[str, int], list[_SourceTally]] = {}
        self._batches: tuple[int, int] | None = None
        self._dropped = Counter[str]()
        self._last: QueryProgress | None = None

    def add(self, entry: QueryProgress, part: int = 0) -> None:
        """Take another batch.

        part: the number of the part of its run, if others are to have the share of the batches between two parts.
        """
        first, last = self._batches or (entry.number, entry.number)
        self.forgotten += max(0, entry.number - last - 1)
        tallies = self._parts.setdefault((entry.run_id, part), [_SourceTally() for _ in entry.sources])
        rows = sum(tally.add(entry, batch) for tally, batch in zip(tallies, entry.sources, strict=True))
        self._batches = (first, entry.number)
        self._dropped["late"] += entry.late_dropped
        self._dropped["groups"] += entry.dropped_rows
        self._dropped["rows with groups"] += rows if entry.dropped_rows else 0
        self._last = entry

    def account(self, missing: Iterable[str] = (), state: Figure | None = None) -> Account:
        """Return the account of these batches.

        missing: what else is not known.
        state: the rows in Spark's state of windows, if they are counted.
        """
        sources, late, not_known, why = self.share()
        forgotten = (
            [f"{counted(self.forgotten, 'batch')} that Spark forgot before anyone looked"] if self.forgotten else []
        )
        open_ = open_rows((self._batches or (0, 0))[0], state, has_state=self.has_state)
        return balanced(
            batches=self._batches,
            sources=sources,
            late=late,
            open_=open_,
            missing=[*missing, *forgotten, *not_known],
            why=[*why, *why_open(open_)],
        )

    def share(self) -> BatchesAccount:
        """Return the share of these batches, without that of others between them."""
        groups = self._dropped["groups"]
        dropped = [f"how many rows are in the {counted(groups, 'group')} that Spark dropped as late"] if groups else []
        by_source = [*zip(*self._parts.values(), strict=True)]
        sources = [added([part.account() for part in parts]) for parts in by_source]
        why = []
        if any(source.read.bound in {"at most", "about"} for source in sources):
            why.append("the sink may take the rows of a batch twice or not at all, so its rows are those of the plan")
        runs = {run: tallies for (run, _), tallies in self._parts.items()}  # with the last part of each
        missing = [said for parts in by_source for said in _skipped_or_bad(parts)]
        missing += [said for last_parts in zip(*runs.values(), strict=True) for said in _left_out(last_parts)]
        return BatchesAccount(sources, self._late(), [*dropped, *missing], why)

    @property
    def has_state(self) -> bool:
        """Whether Spark's state holds anything after the last batch."""
        return self._last is not None and self._last.state_rows > 0

    def _late(self) -> Figure:
        operators = 0 if self._last is None else self._last.operators
        if self._dropped["groups"] and operators > 1:
            return Figure(None)  # they may be results of another operator, from rows of any batch
        late = self._dropped["late"]
        bound: Certainty = "about" if late and operators > 1 else "exact"
        # Spark counts what is left of a task's rows after they were grouped.
        return Figure(late + self._dropped["rows with groups"], "at most" if self._dropped["groups"] else bound)


class _SourceTally:
    """Adds up the share of one source in a part of a run.

    skips: sentences on what was skipped.
    """

    def __init__(self) -> None:
        self._by_split = Counter[SplitId]()
        self._planned = self._given = self._watermark_moves = 0
        self._takes_once, self._begins_untold = True, False
        self._connector = "another source"
        self._last: SourceProgress | None = None
        self._bad_before: int | None = None
        self._bad_bound: Certainty = "exact"
        self.skips: list[str] = []

    def add(self, entry: QueryProgress, batch: SourceBatch) -> int:
        """Take the share of a batch; return how many rows it has at most."""
        said, by_split = batch.progress, Counter[SplitId]()
        if batch.begin is not None and batch.end is not None:
            by_split.update(rows_by_split(batch.begin, batch.end))
            self.skips += skips(batch.begin, batch.end)
            self._connector = batch.end.source
            self._watermark_moves += shown_watermark_ms(batch.begin) != shown_watermark_ms(batch.end)
        planned = by_split.total() or (said.planned_rows if said is not None and batch.moved else 0)
        self._by_split += by_split
        self._planned += planned
        self._given += batch.input_rows
        self._takes_once = self._takes_once and not entry.sink.startswith(_READS_TWICE)
        if said is not None:
            self._last = said
            if self._bad_before is None:  # each progress tells of all batches before its own
                self._bad_before = said.bad_records_total
        elif self._last is None and batch.end is not None:
            self._begins_untold = True  # a restart repeats a batch without a plan of its own
        is_open = self._bad_before is not None and (planned > 0 or self._begins_untold)
        is_open = is_open or (self._begins_untold and self._last is None)
        self._bad_bound = "at least" if is_open else "exact"
        return max(planned, batch.input_rows)

    def account(self) -> SourceAccount:
        """Return the share."""
        last = self._last
        bad = (last.bad_records_total or 0) - (self._bad_before or 0) if last is not None else 0
        of_watermarks = self._watermark_moves if last is not None and last.watermark_rows else 0
        given, set_aside = self._given - of_watermarks + bad, Figure(bad, self._bad_bound)
        if given == self._planned and (last is not None or self._by_split):
            read, set_aside = Figure(given), Figure(bad)
        elif self._takes_once and (not self._by_split or given < self._planned):  # holes in the log, or estimates
            read = Figure(given, self._bad_bound)
        else:
            read = Figure(self._planned, "at most") if self._by_split else Figure(self._planned or given, "about")
        return SourceAccount(self._connector if last is None else last.reads, read, set_aside, dict(self._by_split))

    def left_out(self, metric: str) -> int:
        """Return a metric of what the run has left out."""
        return 0 if self._last is None else int(self._last.metrics.get(metric, 0))


def _skipped_or_bad(parts: Sequence[_SourceTally]) -> Iterator[str]:
    """Yield sentences on what was skipped, and on bad records that are not known."""
    for part in parts:
        yield from part.skips
    if any(part.account().set_aside.bound != "exact" for part in parts):
        yield "how many bad records a run set aside in its last batch, and in a first one that a restart repeated"


def _left_out(runs: Sequence[_SourceTally]) -> Iterator[str]:
    """Yield sentences on what runs have left out."""
    for metric, sentence in _LEFT_OUT.items():
        if number := sum(run.left_out(metric) for run in runs):
            yield f"{sentence} {count(number)}"
