"""``tidegate watch``: the sources that run on this machine, by the notes of their planners, as a table."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Annotated, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field
from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.notes.application import applications
from tidegate.enumerators.notes.folder import PROGRESS, NoteFolder, parsed
from tidegate.enumerators.planning.pace import BATCHES
from tidegate.enumerators.planning.source_progress import SourceProgress, utc_time
from tidegate.enumerators.process_identity import runs
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, printable, span
from tidegate.readers.models import Model

NOTHING = "No running tidegate source of yours is found."
_SOON = timedelta(hours=1)
_NAMED = 3
_Kind = TypeVar("_Kind", bound=BaseModel)
_REFRESH_S = 1.0
_PIPE_WIDTH = 200
_PROGRESS_WIDTH = 29  # of "watermark 2026-01-31 12:00:00"


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A source of a running query.

    query: the query's name, which is known after its first batch.
    heard_at: when its last plan was written, which waits for the previous batch; or when a member of a group renewed
        its note.
    is_member: whether it is a member of a group, perhaps on another machine.
    dropped: how many rows and groups the query has dropped as late in this run, once a batch has reported it.
    """

    query: str | None
    reads: str
    application: str
    heard_at: datetime
    progress: SourceProgress
    dropped: int | None = None
    is_member: bool = False

    def news(self, now: datetime) -> str:
        """Return when something was last heard of it."""
        return f"{'heard of' if self.is_member else 'planned'} {span(max(timedelta(), now - self.heard_at))} ago"


def live_sources() -> list[LiveSource]:
    """Return the sources of this user's queries on this machine, those of one application together.

    Left out are notes that cannot be read, and those of processes that are gone: a killed planner leaves its note.
    """
    sources = []
    for application, folder in applications(PROGRESS).items():
        progress, batches = folder.within(PROGRESS), folder.within(BATCHES)
        notes = [(name, note) for name in progress.names() if (note := _read(progress, name, _Note)) is not None]
        for planner, note in sorted(notes, key=lambda named: named[1].started):
            if runs(note.process) if note.process else _is_used(note.pid):
                batch, heard_at = _read(batches, planner, _Batch) or _Batch(), utc_time(note.updated)
                sources.append(LiveSource(batch.query, note.reads, application, heard_at, note.progress, batch.dropped))
    return sources


def group_sources(location: Folder) -> list[LiveSource]:
    """Return the members of the alignment groups that meet at a location, on all machines.

    A member that was killed stays until another one sweeps its note, eight days later.

    Raises ConnectorError if the location cannot be read.
    """
    sources = []
    for group in sorted(location.folders()):
        folder = location.within(group)
        for file, info in sorted(folder.files().items()):
            stored = folder.read(file)
            note = None if stored is None else parsed(stored.data)
            with suppress(KeyError, TypeError, ValueError):  # not a note, or one without a plan yet
                progress = SourceProgress.from_json((note or {})["progress"])
                reads, name = str((note or {})["member"]["reads"]), f"group {unquote(group)}"
                heard_at = utc_time(int(info.written_s * 1000))
                sources.append(LiveSource(None, reads, name, heard_at, progress, is_member=True))
    return sources


def alerts(source: LiveSource) -> list[str]:
    """Return what a person should look at."""
    progress = source.progress
    found = [f"{split} is late" for split in progress.late_splits[:_NAMED]]
    if progress.late_rows_total:
        found.insert(0, f"{counted(progress.late_rows_total, 'row')} read behind the watermark")
    if source.dropped:  # Spark counts groups
        found.insert(0, f"at least {counted(source.dropped, 'row')} dropped as late")
    if progress.bad_records_total:
        found.append(f"{counted(progress.bad_records_total, 'bad record')} set aside")
    return found + [sentence for sentence, is_soon in _deletion(progress) if is_soon]


def notices(progress: SourceProgress, now: datetime) -> list[str]:
    """Return sentences on the splits that have been paused longest, and on a deletion that is not near."""
    paused = sorted(progress.paused.items(), key=lambda item: item[1])[:_NAMED]
    paused_longest = [f"{split} paused for {span(max(timedelta(), now - since))}" for split, since in paused]
    return paused_longest + [sentence for sentence, is_soon in _deletion(progress) if not is_soon]


def _deletion(progress: SourceProgress) -> Iterator[tuple[str, bool]]:
    if progress.time_to_deletion:
        split, left = min(progress.time_to_deletion.items(), key=lambda item: item[1])
        yield f"{split} deleted in {span(left)}", left < _SOON


class _Note(Model):
    """What is read of a planner's note; see ``ProgressNote``."""

    model_config = ConfigDict(strict=True)

    reads: str
    process: str
    pid: Annotated[int, Field(gt=0, lt=2**31)]
    started: int
    updated: int
    progress: SourceProgress


class _Batch(Model):
    """What is read of the note on a batch; see ``batch_note``."""

    model_config = ConfigDict(strict=True)

    query: str | None = None
    dropped: int | None = None


def _read(folder: NoteFolder, name: str, kind: type[_Kind]) -> _Kind | None:
    """Return a note; None: it cannot be read, or another version of tidegate has written it, or something else."""
    try:
        return kind.model_validate(folder.read(name))
    except (ValueError, TypeError):
        return None


def _is_used(pid: int) -> bool:
    """Return whether a process of this user has this id, on systems where processes have no other name."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


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
    """Return a text for the terminal, which the name of a query or an object cannot command."""
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
