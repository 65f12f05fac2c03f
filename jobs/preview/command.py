"""Shows a preview in the terminal, as JSON, or as a page."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import typer
from rich.console import Console

from tidegate.jobs.files import writable
from tidegate.jobs.preview.page import page
from tidegate.jobs.preview.preview import preview
from tidegate.jobs.preview.terminal import terminal
from tidegate.sources.source import Source


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
