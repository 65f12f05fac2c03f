"""The preview of a source: what Spark's own source would lose, and what tidegate would do with the same rows.

The command shows it as a line of bars for each split and lines to paste; as JSON; or as a page.
"""

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

from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.durations import milliseconds
from tidegate.errors import OptionError
from tidegate.jobs.arguments import parse_span
from tidegate.jobs.figures import clock_time, count, printable
from tidegate.jobs.files import writable
from tidegate.jobs.pages.trace import split_order
from tidegate.jobs.preview.advice import notebook, of_spark, page, part, remarks, splits, suggestions, verdict
from tidegate.jobs.preview.findings import Findings, Prediction, SplitPreview, outcome
from tidegate.jobs.preview.objects import look_at_objects
from tidegate.jobs.preview.seen import Seen
from tidegate.jobs.preview.topics import look_at_topics
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.s3.source import S3Source
from tidegate.sources.source import Source

_MOST_BATCHES = 100_000
_MOST_ROWS = 1_000_000  # of a batch that is suggested
_DRIFTS = [timedelta(minutes=n) for n in (1, 5, 15, 30, 60, 120, 360, 720, 1440, 2880, 10_080)]


class Preview(Findings):
    """What a windowed count would lose with Spark's own source, and what tidegate would do with the same rows.

    ``Findings`` has its attributes.  A notebook shows it as a picture.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return notebook(self)


def preview(
    source: Source, *, watermark_delay: timedelta = timedelta(minutes=10), window: timedelta = timedelta(minutes=5)
) -> Preview:
    """Return what a windowed count of a source would lose in Spark, without Spark and without reading it all.

    It asks Kafka's time index up to 200 times for each partition, fewer times for each of many, and reads a few samples
    of each.  It needs the right to read the topics, and no consumer group.
    Objects are listed and surveyed as a query does when it begins.

    source: a KafkaSource or an S3Source.  Its starts and ends, its limits of a batch and the max drift count.  Event
        times of topics are the timestamps of records.
    watermark_delay: that of ``withWatermark``.
    window: the length of the tumbling windows, in append mode.

    Raises OptionError for another source, and ConnectorError if Kafka cannot be reached.
    """
    watermark_delay, window = parse_span("watermark_delay", watermark_delay), parse_span("window", window)
    if window < timedelta(milliseconds=1):
        raise OptionError(f"the window is {window.total_seconds():g} s, but it must be at least 1 ms")
    if watermark_delay < timedelta(0):
        raise OptionError(f"the watermark delay is {watermark_delay.total_seconds():g} s, but it must be at least 0")
    seen = _look(source)
    budget, histories = seen.budget, seen.histories
    limit = budget.rows or budget.files
    if limit is not None and seen.units > limit * _MOST_BATCHES:
        unit, option = ("objects", "maxFilesPerTrigger") if seen.are_objects else ("rows", "maxOffsetsPerTrigger")
        raise OptionError(
            f"{count(seen.units)} {unit} in batches of {count(limit)} are more than {count(_MOST_BATCHES)} batches; "
            f"preview larger batches ({option})"
        )
    max_drift = source.watermarks.max_drift or _suggested_drift(seen, min(budget.rows or _MOST_ROWS, _MOST_ROWS))
    times = milliseconds(watermark_delay), milliseconds(window)
    ours = outcome(seen.planned, seen.by_tidegate(milliseconds(max_drift or timedelta(0)), budget), *times)
    spark = outcome(histories, seen.by_spark(budget), *times)
    limited_budget, limited = budget, spark
    if budget == UNLIMITED:
        limited_budget = _largest(seen, ours)
        limited = outcome(histories, seen.by_spark(limited_budget), *times)
    splits = {
        **{split: SplitPreview(split, None, None, 0, 0) for split in seen.empty},
        **{
            split: SplitPreview(split, int(history.times_ms[0]), history.last_ms, history.rows, spark.lost[split])
            for split, history in histories.items()
        },
    }
    ordered = tuple(splits[split] for split in sorted(splits, key=split_order))
    return Preview(
        source.reads, watermark_delay, window, budget, max_drift, ordered, seen, spark, limited, limited_budget, ours
    )


def _look(source: Source) -> Seen:
    if isinstance(source, KafkaSource):
        return look_at_topics(source)
    if isinstance(source, S3Source):
        return look_at_objects(source)
    raise OptionError(f"preview looks at topics of Kafka and objects of S3, not at a {type(source).__name__}")


def _largest(seen: Seen, ours: Prediction) -> Budget:
    """Return the limit with which Spark's batches are as large as the largest one of tidegate."""
    share = max(ours.rows, default=0) / max(1, sum(history.rows for history in seen.planned.values()))
    units = max(1, -(-seen.units // _MOST_BATCHES), round(seen.units * share))
    return Budget(files=units) if seen.are_objects else Budget(rows=units)


def _suggested_drift(seen: Seen, most_rows: int) -> timedelta | None:
    """Return the greatest usual drift that makes ten batches, of at most so many rows on average; None: no rows."""
    histories = seen.histories.values()
    if not histories:
        return None
    rows = sum(history.rows for history in histories)
    span_ms = max(history.last_ms for history in histories) - min(int(history.times_ms.min()) for history in histories)
    least = max(10, rows / most_rows)
    return max((drift for drift in _DRIFTS if milliseconds(drift) * least <= span_ms), default=_DRIFTS[0])


_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 32
_MOST_SPLITS = 40


def show_preview(
    source: Source, watermark_delay: timedelta, window: timedelta, *, as_json: bool, html: Path | None
) -> None:
    """Print the preview of a source.

    html: a page to write as well.  Its path is the last line of stdout, or a line of stderr where stdout is JSON.

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
    notes = {split.id: remarks(found.seen, split.id) for split in found.splits}
    rows = {s: history.bars(begin_ms, end_ms, _WIDTH) for s, history in found.seen.histories.items()}
    most = max((max(parts) for parts in rows.values()), default=0) or 1
    # Where there are many, those with most to say come first.
    lost = {split.id: found.limited.lost.get(split.id, 0) for split in found.splits}
    ordered = sorted(found.splits, key=lambda split: -lost[split.id] - bool(notes[split.id]))
    chosen = {split.id for split in ordered[:_MOST_SPLITS]}
    for split in (split for split in found.splits if split.id in chosen):
        parts = rows.get(split.id, ())
        line = "".join(_BARS[-(-8 * max(0, round(part)) // round(most + 0.5))] for part in parts)
        below = "".join(f"\n{note}" for note in notes[split.id])
        lost_here = Text(count(lost[split.id]), style="red" if lost[split.id] else "")
        table.add_row(printable(split.id), Text(line) + Text(below, style="dim"), count(split.rows), lost_here)
    yield table
    if len(found.splits) > _MOST_SPLITS:
        yield Text(f"and {count(len(found.splits) - _MOST_SPLITS)} more {found.seen.word}s; --json shows all")
    yield Text(f"{of_spark(found)}\nWith tidegate:")
    if part(found):
        yield Padding(Text(part(found), style="red"), (0, 0, 0, 2))
    for suggestion in suggestions(found):
        yield Padding(Text(suggestion.line), (0, 0, 0, 2))
        yield Padding(Text(suggestion.reason, style="dim"), (0, 0, 0, 4))
