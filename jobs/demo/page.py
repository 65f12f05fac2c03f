"""The demonstration's result as one HTML page, and as a table.  Pure logic: from results to text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Column, Table

from tidegate.jobs.demo.run import CountRun, Demo, run_demo
from tidegate.jobs.figures import count, share, span
from tidegate.jobs.files import writable
from tidegate.jobs.pages.chart import chart
from tidegate.jobs.pages.layout import (
    Axis,
    figure,
    hours_since,
    key,
    layout,
    legend,
    pause_key,
    split_key,
    table,
    table_row,
)
from tidegate.jobs.pages.trace import Trace, source_runs, trace
from tidegate.jobs.session import saying

COLUMNS = (
    "run",
    "rows in",
    "counted",
    "in open windows",
    "lost",
    "Spark's drop metric",
    "peak state rows",
    "batches",
    "seconds",
)

_READS = {
    "unaligned": "Each batch takes a share of every split's backlog.",
    "aligned": "Each batch reads every split up to one event time, the bound.",
}


def row(run: CountRun) -> tuple[str, ...]:
    """Return the cells of a run, one for each column."""
    return (
        run.name,
        count(run.rows_in),
        count(run.counted),
        count(run.open),
        f"{count(run.lost)} ({share(run.lost, run.rows_in)})",
        count(run.dropped_by_spark),
        count(run.peak_state_rows),
        count(len(run.batches)),
        f"{run.seconds:.1f}",
    )


def page(demo: Demo) -> str:
    """Return the page, which needs no other file and no network."""
    worst, best = max(demo.runs, key=lambda run: run.lost), min(demo.runs, key=lambda run: run.lost)
    begins_ms, ends_ms = zip(*demo.history.values(), strict=True)
    begin_ms, end_ms = min(begins_ms), max(ends_ms)
    rows = [table_row(row(run), {COLUMNS.index("lost"): "lost" if run.lost else "kept"}) for run in demo.runs]
    late = max(demo.history, key=lambda split: demo.history[split].begin_ms)
    headline = (
        f"The same count of the same topic: {count(worst.lost)} rows lost {worst.name}, "
        f"{count(best.lost) if best.lost else 'none'} {best.name}"
    )
    return layout(
        title=f"tidegate demo: {headline}",
        headline=headline,
        introduction=(
            f"{count(best.rows_in)} rows in {len(demo.history)} splits that hold "
            f"{span(end_ms - begin_ms)} of event time; "
            f"{late} was added late and holds only the end of it."
        ),
        figures=[_run(demo, run, hours_since(begin_ms, end_ms)) for run in demo.runs],
        below=legend(_keys(demo)) + table(COLUMNS, rows),
        footer=(
            "A windowed count with a watermark, in append mode. "
            "Rows in open windows wait for the watermark to pass. "
            "The loss needs a limit on the rows of a batch: without one, a single batch reads all rows and loses none. "
            "Spark's drop metric counts the groups that each task dropped, not the rows in them. "
            f"Made by <code>tidegate demo --rows {best.rows_in}</code>."
        ),
    )


def traced(demo: Demo, run: CountRun) -> Trace:
    """Return the trace of a run for its picture, with only Spark's watermark, which loses rows."""
    (source,) = source_runs(run.batches)
    whole = trace(source.batches, demo.history)
    return replace(whole, stairs={**whole.stairs, "source-watermark": ()})


def _run(demo: Demo, run: CountRun, axis: Axis) -> str:
    lost = f"{count(run.lost)} of {count(run.rows_in)} rows lost ({share(run.lost, run.rows_in)})"
    verdict = (
        f'<p class="lost">{lost}</p>' if run.lost else f'<p class="kept">None of {count(run.rows_in)} rows lost</p>'
    )
    picture = chart(
        traced(demo, run),
        axis,
        f"{run.name}: event time reached by each split after each batch. {lost}.",
        [f"{count(run.lost)} rows read below", "Spark's watermark: lost"],
    )
    reads = f"{run.how}. {_READS.get(run.name, '')}"
    return figure(run.name.capitalize(), reads, f"{verdict}\n{picture}")


def _keys(demo: Demo) -> list[str]:
    return [
        *(split_key(i, f"{split}, event time reached") for i, split in enumerate(demo.history)),
        key("bound", "bound of each batch"),
        pause_key(len(demo.history) - 1),
        key("watermark", "Spark's watermark"),
        key("late", "read below the watermark: dropped"),
    ]


def show_demo(rows: int, html: Path) -> None:
    """Run the demonstration; print its table and, as the last line, the path of its page.

    Raises OptionError if the page cannot be written, before anything runs.
    """
    writable("--html", html)
    with saying() as say:
        result = run_demo(rows, say)
    html.write_text(page(result), encoding="utf-8")
    Console().print(_table(result))
    for run in result.runs:
        typer.echo(f"{run.name} ({run.how}): {run.account.headline}")
    typer.echo(html.absolute())


def _table(result: Demo) -> Table:
    """Return the runs as columns, because a terminal is narrow."""
    names, *figures = zip(COLUMNS, *(row(run) for run in result.runs), strict=True)
    table = Table(names[0], *(Column(name, justify="right") for name in names[1:]))
    for cells in figures:
        table.add_row(*cells)
    return table
