"""Shows a preview in the terminal, as a line of bars for each split and lines to paste; as JSON; or as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from tidegate.jobs.figures import clock_time, count, printable
from tidegate.jobs.files import writable
from tidegate.jobs.preview.advice import of_spark, part, remarks, splits, suggestions, verdict
from tidegate.jobs.preview.page import page
from tidegate.jobs.preview.preview import Preview, preview
from tidegate.sources.source import Source

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 32
_MOST_SPLITS = 40


def show_preview(
    source: Source, watermark_delay: timedelta, window: timedelta, *, as_json: bool, html: Path | None
) -> None:
    """Print the preview of a source.

    html: a page to write, too.  Its path is the last line of stdout, or a line of stderr where stdout is JSON.

    Raises OptionError if the page cannot be written, before anything is asked, and the errors of ``tidegate.preview``.
    """
    if html is not None:
        writable("--html", html)
    found = preview(source, watermark_delay=watermark_delay, window=window)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
    else:
        for part in terminal(found):
            Console(highlight=False, markup=False).print(part)
    if html is not None:
        html.write_text(page(found), encoding="utf-8")
        typer.echo(html.absolute(), err=as_json)


def terminal(found: Preview) -> Iterator[RenderableType]:
    """Yield what is printed; it fits a terminal of 80 columns."""
    yield Text(printable(f"{verdict(found)}\n{found.reads}: {splits(found)}" if found.rows else verdict(found)))
    if not found.rows:
        return
    begin_ms, end_ms = found.seen.shown_span
    table = Table(
        Column(found.seen.word, overflow="fold"),
        Column(f"{clock_time(begin_ms)[:16]} to {clock_time(end_ms)[:16]}", min_width=_WIDTH),
        Column("rows", justify="right"),
        Column("lost", justify="right"),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    said = {split.id: remarks(found.seen, split.id) for split in found.splits}
    rows = {s: history.bars(begin_ms, end_ms, _WIDTH) for s, history in found.seen.histories.items()}
    most = max((max(parts) for parts in rows.values()), default=0) or 1
    # Where there are many, those with most to say come first.
    lost = {split.id: found.limited.lost.get(split.id, 0) for split in found.splits}
    ordered = sorted(found.splits, key=lambda split: -lost[split.id] - bool(said[split.id]))
    chosen = {split.id for split in ordered[:_MOST_SPLITS]}
    for split in (split for split in found.splits if split.id in chosen):
        parts = rows.get(split.id, ())
        line = "".join(_BARS[-(-8 * max(0, round(part)) // round(most + 0.5))] for part in parts)
        notes = "".join(f"\n{note}" for note in said[split.id])
        lost_here = Text(count(lost[split.id]), style="red" if lost[split.id] else "")
        table.add_row(printable(split.id), Text(line) + Text(notes, style="dim"), count(split.rows), lost_here)
    yield table
    if len(found.splits) > _MOST_SPLITS:
        yield Text(f"and {count(len(found.splits) - _MOST_SPLITS)} more {found.seen.word}s; --json shows all")
    yield Text(f"{of_spark(found)}\nWith tidegate:")
    if part(found):
        yield Padding(Text(part(found), style="red"), (0, 0, 0, 2))
    for suggestion in suggestions(found):
        yield Padding(Text(suggestion.line), (0, 0, 0, 2))
        yield Padding(Text(suggestion.reason, style="dim"), (0, 0, 0, 4))
