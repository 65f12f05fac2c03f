"""Shows the sources that are running on this machine, as a table in the terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, printable, span
from tidegate.jobs.watch.sources import NOTHING, LiveSource, alerts, group_sources, live_sources, notices

_REFRESH_S = 1.0
_PIPE_WIDTH = 200
_PROGRESS_WIDTH = 29  # of "watermark 2026-01-31 12:00:00"


def live_table(sources: Sequence[LiveSource], now: datetime) -> RenderableType:
    """Return a row for each source, or a sentence when there is none; it fits a terminal of 80 columns."""
    if not sources:
        return Text(NOTHING)
    table = Table(
        Column("source", overflow="fold"),
        Column("progress (UTC)", overflow="fold", min_width=_PROGRESS_WIDTH),
        Column("splits", overflow="fold"),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        leading=1,
    )
    for source in sources:
        table.add_row(_name(source, now), _progress(source.progress), _splits(source, now))
    return table


def show_watch(*, once: bool, location: str | None) -> None:
    """Print the table once, or every second until SIGINT or SIGTERM.

    location: the ``alignmentLocation`` of groups, in place of the queries on this machine.

    Raises OptionError for a malformed location, and ConnectorError if it cannot be read.
    """
    from tidegate.jobs.session import ends_on_signals

    find = live_sources if location is None else partial(group_sources, _folder(location))
    console = Console()
    if once:
        if not console.is_terminal:
            console.width = max(console.width, _PIPE_WIDTH)  # a program needs whole names
        console.print(_now(find))
        return
    try:
        with ends_on_signals(), Live(_now(find), console=console, auto_refresh=False) as live:
            while True:
                threading.Event().wait(_REFRESH_S)  # never set: a wait that can be interrupted
                live.update(_now(find), refresh=True)
    except KeyboardInterrupt:
        return


def _folder(location: str) -> Folder:
    from tidegate.enumerators.folders.opening import open_folder
    from tidegate.readers.s3.config import S3ConnectionConfig

    return open_folder(location, S3ConnectionConfig(), option="--alignment-location", noun="alignment location")


def _now(find: Callable[[], Sequence[LiveSource]]) -> RenderableType:
    return live_table(find(), datetime.fromtimestamp(time.time(), timezone.utc))


def _text(written: str, style: str = "") -> Text:
    """Return a text for the terminal, which whoever names a query or an object cannot command."""
    return Text(printable(written), style=style)


def _name(source: LiveSource, now: datetime) -> Text:
    name = _text(f"{source.query}\n" if source.query else "", "bold")
    return name + _text(source.reads, "not bold") + _text(f"\n{source.application}\n{source.news(now)}", "not bold dim")


def _progress(progress: SourceProgress) -> Text:
    lines = [
        ("watermark", clock_time(progress.watermark)),
        ("bound", clock_time(progress.bound)),
        ("held by", progress.held_by or "-"),
        ("unread", counted(progress.rows_remaining, "row")),
    ]
    if progress.rows_remaining:
        lines.append(("behind", span(progress.event_time_lag)))
    return _text("\n".join(f"{name:10}{value}" for name, value in lines))


def _splits(source: LiveSource, now: datetime) -> Text:
    """List the states, the splits paused longest, and in red anything that needs attention."""
    progress = source.progress
    cell = _text("\n".join(f"{count(number)} {state}" for state, number in progress.splits.items()))
    for sentence in notices(progress, now):
        cell += _text(f"\n{sentence}", "dim")
    for sentence in alerts(source):
        cell += _text(f"\n{sentence}", "red")
    return cell
