"""Runs ``tidegate preview``: options to a source, and its preview to the terminal, JSON or a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from tidegate.jobs.arguments import parse_span, span_text
from tidegate.jobs.files import writable
from tidegate.jobs.named_source import named_source
from tidegate.jobs.preview.page import page
from tidegate.jobs.preview.preview import preview
from tidegate.jobs.preview.terminal import terminal


def run_preview(  # noqa: PLR0913 - parameters are options
    *,
    path: str | None,
    of_kafka: Mapping[str, Any],
    options: Sequence[str],
    max_drift: str | None,
    watermark_delay: str,
    window: str,
    rows_per_batch: int | None,
    as_json: bool,
    html: Path | None,
) -> None:
    """Print the preview of some topics, or of objects.

    of_kafka: the options for Kafka; None: not given.
    html: a page to write, too.  Its path is the last line of stdout, or a line of stderr where stdout is JSON.

    Raises OptionError for an option that cannot be read, and the errors of ``tidegate.preview``.
    """
    if html is not None:
        writable("--html", html)
    own = {
        **({} if rows_per_batch is None else {"maxOffsetsPerTrigger": str(rows_per_batch)}),
        **({} if max_drift is None else {"maxDrift": span_text("--max-drift", max_drift)}),
    }
    found = preview(
        named_source(path, of_kafka, own, options),
        watermark_delay=parse_span("--watermark-delay", watermark_delay),
        window=parse_span("--window", window),
    )
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
    else:
        for part in terminal(found):
            Console(highlight=False, markup=False).print(part)
    if html is not None:
        html.write_text(page(found), encoding="utf-8")
        typer.echo(html.absolute(), err=as_json)
