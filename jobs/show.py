"""Runs jobs in a terminal: progress on stderr, results on stdout."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from tidegate.jobs.backfill.run import backfill
from tidegate.jobs.demo.page import COLUMNS, page, row
from tidegate.jobs.demo.run import Demo, run_demo
from tidegate.jobs.files import writable
from tidegate.sources.source import Source


def show_backfill(source: Source, out: Path, master: str) -> None:
    """Run the back-fill with its progress, and print its summary."""
    summary = backfill(source, out, Console(stderr=True), master=master)
    table = Table.grid(padding=(0, 2))
    for name, value in summary.lines():
        table.add_row(name, value)
    Console(soft_wrap=True, highlight=False).print(table)


def show_demo(rows: int, html: Path, *, with_archive: bool) -> None:
    """Run the demonstration; print its table and, as the last line, the path of its page.

    Raises OptionError if the page cannot be written, before anything runs.
    """
    writable("--html", html)
    errors = Console(stderr=True)
    if errors.is_terminal:
        with errors.status("") as status:
            result = run_demo(rows, status.update, with_archive=with_archive)
    else:
        result = run_demo(rows, errors.print, with_archive=with_archive)
    html.write_text(page(result), encoding="utf-8")
    output = Console()
    output.print(_table(result))
    for run in result.runs:
        output.print(f"{run.name}: {run.account.headline}", soft_wrap=True, highlight=False)
    output.print(html.absolute(), soft_wrap=True, highlight=False)


def _table(result: Demo) -> Table:
    """Return the runs as columns, because a terminal is narrow."""
    names, *figures = zip(COLUMNS, *(row(run) for run in result.runs), strict=True)
    table = Table(names[0], *(Column(name, justify="right") for name in names[1:]))
    for cells in figures:
        table.add_row(*cells)
    return table
