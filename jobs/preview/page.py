"""A preview as an HTML page, and as a picture for notebooks.  Pure logic: from a preview to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count
from tidegate.jobs.pages.canvas import Canvas, utc_times
from tidegate.jobs.pages.chart import columns
from tidegate.jobs.pages.layout import figure, key, layout, legend, table, table_row
from tidegate.jobs.preview.advice import lead, of_spark, part, remarks, splits, suggestions, verdict
from tidegate.jobs.preview.findings import Findings, SplitPreview

_COLUMNS = ("first (UTC)", "last (UTC)", "rows", "lost by Spark", "remarkable")
_HEIGHT = 420
_PARTS = 96  # of event time
_SHADES = 5
_MOST_SPLITS = 200
_REMARKS = "@media (min-width: 641px) { main :is(th, td):last-child { text-align: left; white-space: normal; } }"
_STYLE = (
    ".tidegate-preview svg { max-width: 720px; } .tidegate-preview svg text { fill: currentColor; font-size: 12px; }"
    ".tidegate-preview .grid { stroke: #8886; fill: none; }"
)


def page(found: Findings) -> str:
    """Return the page, which needs no other file and no network."""
    origin = "a survey of the objects" if found.seen.are_objects else "Kafka's time index and samples"
    figures = [figure(f"Event time against {_across(found)}", _span(found), _picture(found))] if found.rows else []
    if found.rows:
        rows = found.tidegate.rows
        text = f"{counted(len(rows), 'batch')}, {lead(found)}."
        batches = columns(range(len(rows)), rows, "rows", "The rows of each batch that tidegate plans.")
        figures.append(figure("What tidegate would do", text, batches + _advice(found)))
    return layout(
        title=f"tidegate preview: {found.reads}",
        headline=verdict(found),
        introduction=f"{found.reads}: {splits(found)}. {of_spark(found)}" if found.rows else f"{splits(found)}.",
        figures=figures,
        below=table([found.seen.word, *_COLUMNS], [_row(found, split) for split in found.splits]),
        head=f"<style>{_REMARKS}</style>",
        footer=f"From {origin}, not from all rows. Made by <code>tidegate preview</code>.",
    )


def _row(found: Findings, split: SplitPreview) -> str:
    lost = found.limited.lost.get(split.id, 0)
    cells = (
        split.id,
        clock_time(split.first_ms),
        clock_time(split.last_ms),
        count(split.rows),
        count(lost),
        "; ".join(remarks(found.seen, split.id)),
    )
    return table_row(cells, {1 + _COLUMNS.index("lost by Spark"): "lost"} if lost else {})


def notebook(found: Findings) -> str:
    """Return the picture, the verdict and the lines to paste, in the colours of a notebook."""
    picture = _picture(found) + _advice(found) if found.rows else ""
    return f'<div class="tidegate-preview"><style>{_STYLE}</style><p><b>{escape(verdict(found))}</b></p>{picture}</div>'


def _span(found: Findings) -> str:
    begin_ms, end_ms = found.seen.shown_span
    few = len(found.splits) > _MOST_SPLITS
    return (
        f"{count(found.rows)} rows from {clock_time(begin_ms)} to {clock_time(end_ms)}. The darker, the more rows."
        + (f" Only the first {_MOST_SPLITS} {found.seen.word}s are drawn." if few else "")
    )


def _advice(found: Findings) -> str:
    lines = (
        f"<p><code>{escape(suggestion.line)}</code><br>{escape(suggestion.reason)}</p>"
        for suggestion in suggestions(found)
    )
    return (f'<p class="lost">{escape(part(found))}</p>' if part(found) else "") + "".join(lines)


def _across(found: Findings) -> str:
    return "objects, in the order of their modification" if found.seen.are_objects else "partition"


def _names(shown: Sequence[SplitPreview]) -> list[str]:
    """Return the names of splits: their numbers, if there is one topic."""
    topics, numbers = zip(*(split.id.rpartition("-")[::2] for split in shown), strict=True)
    return [*numbers] if len({*topics}) == 1 else [split.id for split in shown]


def _picture(found: Findings) -> str:
    """Draw a column for each split: where it has rows in event time, and how many."""
    axis = utc_times(*found.seen.shown_span)
    shown = found.splits[:_MOST_SPLITS]
    names = [(place + 0.5, name) for place, name in enumerate(_names(shown))]
    canvas = Canvas(range(len(shown)), _HEIGHT, axis, _across(found), names)
    part_ms = (axis.end - axis.begin) / _PARTS
    histories = found.seen.histories
    rows = {s.id: histories[s.id].bars(axis.begin, axis.end, _PARTS) for s in shown if s.id in histories}
    most = max((max(parts) for parts in rows.values()), default=0) or 1

    def marks() -> Iterator[str]:
        yield from canvas.frame()
        for place, split in enumerate(shown):
            shades = [-(-_SHADES * part // most) for part in rows.get(split.id, ())]
            left, right = canvas.x(place + 0.08), canvas.x(place + 0.92)
            for shade, parts in groupby(enumerate(shades), key=lambda numbered: numbered[1]):
                numbers = [number for number, _ in parts]
                if shade > 0:
                    top = canvas.y(axis.begin + (numbers[-1] + 1) * part_ms)
                    bottom = canvas.y(axis.begin + numbers[0] * part_ms)
                    yield (
                        f'<rect fill="#2f6fdf" fill-opacity="{shade / _SHADES:.1f}" x="{left}" y="{top}" '
                        f'width="{right - left:.1f}" height="{bottom - top:.1f}">'
                        f"<title>{escape(split.id)}</title></rect>"
                    )
            if split.id in found.seen.marks:
                y = canvas.y(found.seen.marks[split.id])
                yield f'<path class="watermark" stroke="#c33" d="M{canvas.x(place)} {y}H{canvas.x(place + 1)}"/>'

    legend_of_marks = legend([key("watermark", "last mark in the samples")]) if found.seen.marks else ""
    return legend_of_marks + canvas.svg(marks(), f"{verdict(found)} Event time of the rows of each {found.seen.word}.")
