"""Makes an HTML page of a query's run: the splits of each source over event time, and its batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.enumerators.planning.source_progress import CompletenessProgress, GeneratedProgress, SourceProgress
from tidegate.errors import OptionError, counted
from tidegate.jobs.account.of_progress import KEPT, account_of_run, is_cut, progress_of_run
from tidegate.jobs.figures import clock_time, count, span, split_name
from tidegate.jobs.files import writable
from tidegate.jobs.pages.chart import chart, columns
from tidegate.jobs.pages.layout import figure, key, layout, legend, pause_key, split_key, table, table_row
from tidegate.jobs.pages.trace import SourceRun, Trace, source_runs, trace, with_axis
from tidegate.sources.add_on import LATE_DROPPED
from tidegate.sources.progress.query import QueryProgress, check_query
from tidegate.windows.spark.results import kept_windows

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


COLUMNS = (
    *("source", "batches", "rows", "rows/s", "unread rows", "behind", "bound (UTC)", "watermark (UTC)"),
    "read behind the watermark",
)
_STAIRS = {
    "bound": "bound: nothing past it was read",
    "source-watermark": "source's watermark: no older row is expected",
    "watermark": "Spark's watermark: rows before it are dropped as late",
}


def report(query: StreamingQuery, path: str | PathLike[str]) -> Path:
    """Write an HTML page about a query with tidegate sources, running or ended, and return its absolute path.

    The page shows for each batch the event time that splits reached, the bound, the watermarks, its rows and its
    seconds.  The file needs no other file and no network.  Spark keeps the last 100 batches of a run
    (``spark.sql.streaming.numRecentProgressUpdates``); the page says if the beginning is missing.

    path: the path of the file, which is overwritten; missing folders are created.

    Raises OptionError if no tidegate source of the query has planned a batch yet, if the file cannot be written, or if
    ``query`` is not a query.
    """
    check_query("report", query)
    ended = not query.isActive
    page = query_page(progress_of_run(query), ended=ended)
    if page is None:
        raise OptionError(
            f"the query {query.name or query.id} has no progress of a tidegate source: wait for its first batch"
        )
    file = writable("path", Path(path).absolute())
    file.write_text(page, encoding="utf-8")
    return file


def query_page(progresses: Sequence[QueryProgress], *, ended: bool) -> str | None:
    """Return the page, which needs no other file and no network, once a tidegate source has planned a batch.

    progresses: the progresses of one run of the query that Spark has kept, the oldest first.
    """
    runs = source_runs(progresses)
    if not runs:
        return None
    first, last = progresses[0], progresses[-1]
    name = last.name or " and ".join(run.name for run in runs)
    rows = sum(batch.rows for run in runs for batch in run.batches)
    batches = max(len(run.batches) for run in runs)
    return layout(
        title=f"tidegate: {name}",
        headline=(
            f"{name}: {counted(rows, 'row')} in {counted(batches, 'batch')}, {account_of_run(progresses).headline}"
        ),
        introduction=(
            f"From {clock_time(first.began)} to {clock_time(last.began)} UTC{'; it has ended' if ended else ''}."
            + _windows(progresses)
            + _missing(progresses)
        ),
        figures=[card for run in runs if run.batches for card in _cards(run, ended=ended)],
        below=table(COLUMNS, (_row(run) for run in runs)),
        footer=(
            "Batches that read nothing are left out. A split that is read to its end is shown at its last known "
            "record, or at the watermark. Rows are counted as planned: as offsets of Kafka, and as estimates for "
            "objects in JSON, CSV, Avro and text. Late rows are those that the query dropped; rows that were read "
            "behind the source's watermark may be among them. Latency is the time of the commit minus the first event "
            "time of the batch (FLIP-33: currentEmitEventTimeLag). "
            f"Query {last.id}, run {last.run_id}. Made by <code>tidegate.report</code>."
        ),
    )


def _windows(progresses: Sequence[QueryProgress]) -> str:
    """Return sentences on what windows keep, and on the rows that they dropped as late, if there are any."""
    kept = {bucket: windows for batch in progresses for bucket, windows in kept_windows(batch.observed).items()}
    state = ""
    if kept:
        number = sum(windows.number for windows in kept.values())
        due = min((windows.due for windows in kept.values() if windows.due is not None), default=None)
        state = (
            f" {counted(number, 'window')} open in the {counted(len(kept), 'bucket')} that this run called"
            f"{'' if due is None else f', the first due at {clock_time(due)} UTC'}; "
            f"the state has {progresses[-1].state_bytes / 2**20:,.1f} MiB."
        )
    dropped = sum(batch.late_dropped for batch in progresses)
    return state + (f" Windows dropped {counted(dropped, 'row')} as late (Flink: {LATE_DROPPED})." if dropped else "")


def _missing(progresses: Sequence[QueryProgress]) -> str:
    """Return a sentence on the batches before the first one that is shown, if there are any."""
    number, entries = next(entry.number for entry in progresses if entry.source_progress), len(progresses)
    if not number:
        return ""
    if not is_cut(progresses):  # a batch that this run repeats has the plan of an earlier one
        return (
            f" The query went on from a checkpoint: what earlier runs planned, up to batch {number - 1}, is not shown."
        )
    return (
        f" Earlier batches are missing: Spark keeps the last {count(entries)} entries of a query's progress; "
        f"set {KEPT} higher before the query starts to see more."
    )


def _cards(run: SourceRun, *, ended: bool) -> list[str]:
    """Return the pictures of a source with at least one batch."""
    shown, axis = with_axis(trace(run.batches))
    picture = _no_picture(run.last)
    if axis is not None:
        picture = chart(shown, axis, f"{run.name}: event time reached by the splits after each batch.")
        picture += legend(_keys(run.last, shown))
    return [figure(run.name, _splits(run.last, ended=ended) + _holding(run.last), picture), _batches(run, shown)]


def _no_picture(last: SourceProgress) -> str:
    """Return why splits cannot be shown over event time."""
    if last.bound is None and last.watermark is None:
        return "<p>No event time is known: no row was read, or the source is not aligned and has no watermark.</p>"
    return "<p>Each split was read to its end before, and gets its place with its next row.</p>"


def _splits(last: SourceProgress, *, ended: bool) -> str:
    """Return a sentence on the states of the splits in the last plan, and on the split that holds back the others."""
    splits = counted(sum(last.splits.values()), "split")
    in_plan = f"; in the last plan {_states(last)}" if ended else f": {_states(last)}{_holder(last)}"
    made = "" if last.row_stage is None else f" {last.row_stage}"
    return f"{splits}{in_plan}.{_bad_records(last)}{made}"


def _states(last: SourceProgress) -> str:
    """Return how many splits are in each state."""
    return ", ".join(f"{count(number)} {state}" for state, number in last.splits.items())


def _holder(last: SourceProgress) -> str:
    """Return a clause on the split that sets the bound; empty if that holds back no other."""
    return f"; held by {split_name(last.held_by)}" if last.held_by is not None and last.splits.get("paused") else ""


def _bad_records(last: SourceProgress) -> str:
    """Return a sentence on the records that were set aside; empty if the source sets none aside."""
    total = last.bad_records_total
    return "" if total is None else f" Bad records set aside: {count(total)}."


def _keys(last: SourceProgress, shown: Trace) -> list[str]:
    """Return the legend of a picture; ``last`` is the last plan in it."""
    entries = [split_key(index, split_name(split)) for index, split in enumerate(shown.paused)]
    if any(shown.paused.values()):
        entries.append(pause_key(next(i for i, batches in enumerate(shown.paused.values()) if batches)))
    if shown.is_band:
        slowest = "" if last.most_behind is None else f", now {split_name(last.most_behind.split)}"
        entries.append(key("slowest", f"slowest split{slowest}"))
        entries += [key("median", "median"), key("fastest", "fastest split"), key("band", "all splits")]
    drawn = {name for name, times in shown.stairs.items() if any(at_ms is not None for at_ms in times)}
    return entries + [key(name, text) for name, text in _STAIRS.items() if name in drawn]


def _batches(run: SourceRun, shown: Trace) -> str:
    rows, seconds = [batch.rows for batch in run.batches], [batch.query.seconds for batch in run.batches]
    late = {index for index, batch in enumerate(run.batches) if batch.progress.late_rows}
    pictures = [
        columns(shown.batches, rows, "rows", f"{run.name}: rows of each batch.", late),
        columns(shown.batches, seconds, "seconds", f"{run.name}: seconds that each batch took."),
    ]
    lags = [batch.progress.current_emit_event_time_lag for batch in run.batches]
    if any(lag is not None for lag in lags):
        unit, name = _unit(max(lag for lag in lags if lag is not None))
        heights = [0.0 if lag is None else lag / unit for lag in lags]
        description = f"{run.name}: {name} from the first event time of each batch to its commit."
        pictures.append(columns(shown.batches, heights, f"{name} of latency", description))
    if shown.is_band:  # the lines of splits show their pauses
        paused = [batch.progress.splits.get("paused", 0) for batch in run.batches]
        pictures.append(columns(shown.batches, paused, "paused splits", f"{run.name}: splits that each batch paused."))
    if late:
        pictures.append(legend([key("marked", "batch with rows behind the watermark")]))
    return figure(
        f"{run.name}: batches",
        f"{counted(sum(rows) / len(rows), 'row')} and {sum(seconds) / len(seconds):.1f} s on average; "
        f"at most {counted(max(rows), 'row')}, {max(seconds):.1f} s.{_latency(run)}",
        "".join(pictures),
    )


def _unit(longest: timedelta) -> tuple[timedelta, str]:
    """Return the greatest unit in which a duration is at least 2."""
    units = {"days": timedelta(days=1), "hours": timedelta(hours=1), "minutes": timedelta(minutes=1)}
    shown = ((unit, name) for name, unit in units.items() if longest >= 2 * unit)
    return next(shown, (timedelta(seconds=1), "seconds"))


def _row(run: SourceRun) -> str:
    """Return the row of a source, with a cell for each of COLUMNS."""
    rows, seconds = sum(batch.rows for batch in run.batches), sum(batch.query.seconds for batch in run.batches)
    last, batches = run.last, len(run.batches)
    cells = (
        run.name,
        count(batches),
        count(rows),
        count(rows / seconds) if seconds else "-",
        count(last.rows_remaining),
        span(last.event_time_lag) if last.rows_remaining else "-",
        clock_time(last.bound),
        clock_time(last.watermark),
        count(last.late_rows_total),
    )
    return table_row(cells, {len(COLUMNS) - 1: "lost"} if last.late_rows_total else {})


def _latency(run: SourceRun) -> str:
    """Return a sentence on the last known latency in event time of a batch; empty if none is known."""
    lags = (batch.progress.current_emit_event_time_lag for batch in reversed(run.batches))
    return next((f" Latency of the last one: {span(lag)}." for lag in lags if lag is not None), "")


def _holding(last: SourceProgress) -> str:
    """Return a sentence on the last plan of a source; empty if its watermark is planned, or without a plan."""
    if last.completeness is not None:
        return f" {_of_folders(last.completeness)}"
    return "" if last.generated is None else f" {_of_splits(last.generated)}"


def _of_folders(complete: CompletenessProgress) -> str:
    until = (
        "No folder is complete yet"
        if complete.until is None
        else f"Folders are complete up to {clock_time(complete.until)}"
    )
    if complete.held_from is None:
        return f"{until}; no folder with objects waits for its marker."
    return f"{until}; the folder of {clock_time(complete.held_from)} has objects, and no marker yet."


def _of_splits(generated: GeneratedProgress) -> str:
    if generated.held_by is None:
        sentence = "No split holds the watermark: all are idle or at their ends."
    elif (held_at := generated.by_split.get(generated.held_by, (None, ""))[0]) is None:
        sentence = f"{split_name(generated.held_by)} holds the watermark: it has none yet."
    else:
        sentence = f"{split_name(generated.held_by)} holds the watermark, at {clock_time(held_at)}."
    if generated.late_rows:
        sentence += (
            f" {count(generated.late_rows)} of {counted(generated.rows, 'row')} came behind the watermark in this run."
        )
    return sentence
