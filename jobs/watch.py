"""Shows the sources that are running on this machine, as a table in the terminal."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from urllib.parse import unquote

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from tidegate.enumerators.contract import Json
from tidegate.enumerators.notes.folder import NoteFolder, applications
from tidegate.enumerators.notes.progress import PROGRESS
from tidegate.enumerators.planning.pace import BATCHES
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.enumerators.process_identity import runs
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, printable, span

__all__ = ["LiveSource", "live_sources", "live_table", "show_watch"]

_REFRESH_S = 1.0
_PIPE_WIDTH = 200
_NOTHING = "No tidegate source of yours runs on this machine now."
_SOON = timedelta(hours=1)
_NAMED = 3
_TIMES_WIDTH = 29  # of "watermark 2026-01-31 12:00:00"


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A source of a running query.

    query: the query's name, which is known after its first batch.
    planned_at: when its last plan was written; a plan waits for the previous batch.
    """

    query: str | None
    reads: str
    application: str
    planned_at: datetime
    progress: SourceProgress


def live_sources() -> list[LiveSource]:
    """Return the sources of this user's queries on this machine, those of one application together.

    A killed planner leaves its note behind: notes of processes that are gone are left out.
    """
    sources = []
    for application in applications():
        notes = [(name, note) for name, note in application.within(PROGRESS).notes() if note is not None]
        for planner, note in sorted(notes, key=lambda named: named[1].get("started", 0)):
            with suppress(KeyError, TypeError, ValueError):  # a note of another version of tidegate
                if runs(note["process"]) if note["process"] else _is_used(note["pid"]):
                    sources.append(_live_source(application, planner, note))
    return sources


def live_table(sources: Sequence[LiveSource], now: datetime) -> RenderableType:
    """Return a row for each source, or a sentence when there is none; it fits a terminal of 80 columns."""
    if not sources:
        return Text(_NOTHING)
    table = Table(
        Column("source", overflow="fold"),
        Column("event time (UTC)", overflow="fold", min_width=_TIMES_WIDTH),
        Column("unread", justify="right", no_wrap=True),
        Column("splits", overflow="fold"),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        leading=1,
    )
    for source in sources:
        progress = source.progress
        table.add_row(_name(source, now), _event_time(progress), _unread(progress), _splits(progress, now))
    return table


def show_watch(*, once: bool) -> None:
    """Print the table once, or every second until SIGINT or SIGTERM."""
    from tidegate.jobs.session import ends_on_signals

    console = Console()
    if once:
        if not console.is_terminal:
            console.width = max(console.width, _PIPE_WIDTH)  # a program needs whole names
        console.print(_now())
        return
    try:
        with ends_on_signals(), Live(_now(), console=console, auto_refresh=False) as live:
            while True:
                threading.Event().wait(_REFRESH_S)  # never set: a wait that can be interrupted
                live.update(_now(), refresh=True)
    except KeyboardInterrupt:
        return


def _now() -> RenderableType:
    return live_table(live_sources(), datetime.fromtimestamp(time.time(), timezone.utc))


def _live_source(application: NoteFolder, planner: str, note: Json) -> LiveSource:
    batch = application.within(BATCHES).read(planner) or {}
    planned_at = datetime.fromtimestamp(note["updated"] / 1000, timezone.utc)
    progress = SourceProgress.from_json(note["progress"])
    return LiveSource(batch.get("query"), note["reads"], unquote(application.path.name), planned_at, progress)


def _text(written: str, style: str = "") -> Text:
    """Return a text for the terminal, which whoever names a query or an object cannot command."""
    return Text(printable(written), style=style)


def _name(source: LiveSource, now: datetime) -> Text:
    ago = f"planned {_ago(source.planned_at, now)} ago"
    name = _text(f"{source.query}\n" if source.query else "", "bold")
    return name + _text(source.reads, "not bold") + _text(f"\n{source.application}\n{ago}", "not bold dim")


def _event_time(progress: SourceProgress) -> Text:
    lines = [
        ("watermark", clock_time(progress.watermark)),
        ("bound", clock_time(progress.bound)),
        ("held by", progress.held_by or "-"),
    ]
    return _text("\n".join(f"{name:10}{value}" for name, value in lines))


def _unread(progress: SourceProgress) -> Text:
    rows = counted(progress.rows_remaining, "row")
    return Text(f"{rows}\n{span(progress.event_time_lag)} behind" if progress.rows_remaining else rows)


def _splits(progress: SourceProgress, now: datetime) -> Text:
    """List the states, the split paused longest, and in red anything that needs attention."""
    cell = _text("\n".join(f"{count(number)} {state}" for state, number in progress.splits.items()))
    for split, since in sorted(progress.paused.items(), key=lambda item: item[1])[:_NAMED]:
        cell += _text(f"\n{split} paused for {_ago(since, now)}", "dim")
    if progress.late_rows_total:
        cell += _text(f"\n{counted(progress.late_rows_total, 'row')} late", "red")
    for split in progress.late_splits[:_NAMED]:
        cell += _text(f"\n{split} is late", "red")
    if progress.bad_records_total:
        cell += _text(f"\n{counted(progress.bad_records_total, 'bad record')} set aside", "red")
    if progress.time_to_deletion:
        split, left = min(progress.time_to_deletion.items(), key=lambda item: item[1])
        cell += _text(f"\n{split} deleted in {span(left)}", "red" if left < _SOON else "dim")
    return cell


def _ago(then: datetime, now: datetime) -> str:
    return span(max(timedelta(), now - then))


def _is_used(pid: int) -> bool:
    """Return whether a process of this user has this id, on systems where processes have no other name."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
