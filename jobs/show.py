"""Runs jobs in a terminal: progress on stderr, results on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tidegate.jobs.backfill.run import backfill
from tidegate.jobs.demo.page import COLUMNS, page, row
from tidegate.jobs.demo.run import Demo, run_demo
from tidegate.jobs.figures import in_columns
from tidegate.jobs.files import writable
from tidegate.sources.source import Source


def show_backfill(source: Source, out: Path, master: str) -> None:
    """Run the back-fill with its progress, and print its summary."""
    with _saying() as say:
        summary = backfill(source, out, say, master=master)
    typer.echo("\n".join(in_columns(summary)))


def show_demo(rows: int, html: Path) -> None:
    """Run the demonstration; print its table and, as the last line, the path of its page.

    Raises OptionError if the page cannot be written, before anything runs.
    """
    writable("--html", html)
    with _saying() as say:
        result = run_demo(rows, say)
    html.write_text(page(result), encoding="utf-8")
    Console().print(_table(result))
    for run in result.runs:
        typer.echo(f"{run.name} ({run.how}): {run.account.headline}")
    typer.echo(html.absolute())


@contextmanager
def _saying() -> Iterator[Callable[[str], None]]:
    """Yield what shows a line on stderr: on a terminal in place of the one before."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield partial(typer.echo, err=True)
        return
    with errors.status("") as status:
        yield lambda line: status.update(Text(line))


def _table(result: Demo) -> Table:
    """Return the runs as columns, because a terminal is narrow."""
    names, *figures = zip(COLUMNS, *(row(run) for run in result.runs), strict=True)
    table = Table(names[0], *(Column(name, justify="right") for name in names[1:]))
    for cells in figures:
        table.add_row(*cells)
    return table
