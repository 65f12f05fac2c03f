"""The account of one run of a query, from Spark's progress.  Pure logic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import counted
from tidegate.jobs.account.account import NO_ROWS, Account, Bound, Figure, SourceAccount, balanced
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.progress.query import QueryProgress, SourceBatch

__all__ = ["KEPT", "account_of_run", "is_cut", "rows_by_split", "skips"]

KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_READS_TWICE = "ForeachBatchSink"  # an action of the function may read a batch again, or not at all
_LEFT_OUT = "numFilesLeftOut"


def account_of_run(
    progresses: Sequence[QueryProgress], kept: int | None = None, state: Figure | None = None
) -> Account:
    """Return the account of a run.

    progresses: the progresses of the run, the oldest first.
    kept: how many entries Spark keeps, by its setting; None: none is missing.
    state: the rows in Spark's state of windows; None: they are not counted.
    """
    if not progresses:
        return balanced(batches=None, sources=())
    first, last = progresses[0], progresses[-1]
    missing = []
    if kept is not None and is_cut(progresses, kept):
        missing.append(f"the batches of this run before batch {first.number}, which Spark no longer has")
    sources = [_source([(entry, entry.sources[place]) for entry in progresses]) for place in range(len(last.sources))]
    if groups := sum(entry.dropped_rows for entry in progresses):
        missing.append(f"how many rows are in the {counted(groups, 'group')} that Spark dropped as late")
    for place, source in enumerate(sources):
        missing += _left_out(source, [entry.sources[place] for entry in progresses])
    return balanced(
        batches=(first.number, last.number),
        sources=sources,
        late=_late(progresses),
        open_=_open(last, progresses, state),
        missing=missing,
    )


def is_cut(progresses: Sequence[QueryProgress], kept: int) -> bool:
    """Return whether Spark has forgotten the first batches of a run, of which it keeps ``kept`` entries less one."""
    return progresses[0].number > 0 and len(progresses) >= kept - 1


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


def _source(batches: Sequence[tuple[QueryProgress, SourceBatch]]) -> SourceAccount:
    by_split: dict[SplitId, int] = {}
    planned, counts_all = 0, True
    for entry, batch in batches:
        of_splits = {} if batch.begin is None or batch.end is None else rows_by_split(batch.begin, batch.end)
        for split, rows in of_splits.items():
            by_split[split] = by_split.get(split, 0) + rows
        if of_splits:
            planned += sum(of_splits.values())
        elif batch.progress is not None and batch.moved:
            planned += batch.progress.planned_rows
        counts_all = counts_all and not entry.sink.startswith(_READS_TWICE)
    set_aside = _set_aside([batch for _, batch in batches])
    told = [batch.progress for _, batch in batches if batch.progress is not None]
    read = Figure(planned, "at most" if by_split else "about")
    given = sum(batch.input_rows for _, batch in batches) + (set_aside.rows or 0)
    if given == planned and (told or by_split):
        read, set_aside = Figure(planned), Figure(set_aside.rows)
    elif counts_all and (not by_split or given < planned):  # holes in the log, or estimates of objects
        read = Figure(given, set_aside.bound)
    elif not told:
        read = Figure(given, "about")
    return SourceAccount(told[-1].reads if told else "another source", read, set_aside, by_split)


def _set_aside(batches: Sequence[SourceBatch]) -> Figure:
    """Return the bad records of the run; each progress tells of all batches before its own."""
    told = [batch.progress for batch in batches if batch.progress is not None]
    totals = [said.bad_records_total for said in told if said.bad_records_total is not None]
    if not totals:
        return NO_ROWS
    is_told = not told[-1].planned_rows or not batches[-1].moved
    return Figure(totals[-1] - totals[0], "exact" if is_told else "at least")


def _late(progresses: Sequence[QueryProgress]) -> Figure:
    counted_rows = sum(entry.late_dropped for entry in progresses)
    dropping = [entry for entry in progresses if entry.dropped_rows]
    if any(entry.operators > 1 for entry in dropping):
        return Figure(None)  # they may be results of another operator, from rows of any batch
    # Spark counts what is left of a task's rows after they were grouped.
    grouped = sum(_rows(source) for entry in dropping for source in entry.sources)
    bound: Bound = "at most" if dropping else "exact"
    if counted_rows and max(entry.operators for entry in progresses) > 1:
        bound = "about"
    return Figure(counted_rows + grouped, bound)


def _rows(batch: SourceBatch) -> int:
    planned = batch.progress.planned_rows if batch.progress is not None and batch.moved else 0
    return max(planned, batch.input_rows)


def _open(last: QueryProgress, progresses: Sequence[QueryProgress], state: Figure | None) -> Figure:
    kept = {bucket: windows.number for entry in progresses for bucket, windows in entry.windows.items()}
    numbers = [number for number in kept.values() if number is not None]
    # The operator keeps pages of windows.  Buckets that this run did not call may keep windows of earlier runs.
    has_all = bool(numbers) and len(numbers) == len(kept) and last.operators == 1 and not progresses[0].number
    if not (any(numbers) if has_all else last.state_rows):
        return NO_ROWS
    found = Figure(None) if state is None else state
    # Spark's state also holds rows that earlier runs left open.
    return Figure(found.rows, "at most") if progresses[0].number else found


def _left_out(source: SourceAccount, batches: Sequence[SourceBatch]) -> Iterator[str]:
    for batch in batches:
        if batch.begin is not None and batch.end is not None:
            yield from skips(batch.begin, batch.end)
    told = [batch.progress for batch in batches if batch.progress is not None]
    if told and (objects := int(told[-1].metrics.get(_LEFT_OUT, 0))):
        yield f"the rows of {counted(objects, 'object')} that {'was' if objects == 1 else 'were'} left out"
    if source.set_aside.bound != "exact":
        yield "how many bad records the last batch set aside, which the next one reports"
