"""What pages are made of: their layout in HTML, and canvases in SVG with axes, ticks and places for batches.

Pure logic: from pieces to a page, which sets the colours.  Every mark has a class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

from tidegate.jobs.figures import clock_time

_LINE = '<polyline class="split {}" stroke-width="2" points="0,6 30,6"/>'
_MARKS = {
    "bound": '<path class="bound" d="M0 10H15V2H30"/>',
    "watermark": '<path class="watermark" d="M0 6H30"/>',
    "source-watermark": '<path class="source-watermark" d="M0 6H30"/>',
    "late": '<rect class="late" y="-1" width="30" height="14"/>',
    "band": '<rect class="band" y="-1" width="30" height="14"/>',
    "marked": '<rect class="marked" y="-1" width="30" height="14"/>',
    **{name: _LINE.format(name) for name in ("slowest", "median", "fastest")},
}


def layout(
    *,
    title: str,
    headline: str,
    introduction: str,
    figures: Iterable[str],
    below: str,
    footer: str,
    head: str = "",
) -> str:
    """Return a page that needs no other file and no network; it is light or dark like the reader's system.

    below: what follows the figures, such as the ``table`` of all runs.
    figures, below, footer, head: HTML; all else is text.
    """
    cards = "\n".join(figures)
    return Template(_text("page.html")).substitute(
        title=escape(title),
        headline=escape(headline).replace(" %", "&nbsp;%"),
        introduction=escape(introduction),
        style=_text("page.css"),
        body=f'<section class="runs">\n{cards}\n</section>\n{below}\n',
        footer=footer,
        head=head,
    )


def figure(heading: str, text: str, html: str) -> str:
    """Return a card: a heading, a sentence, and the content below them."""
    return f'<article class="run"><h2>{escape(heading)}</h2><p>{escape(text)}</p>{html}</article>'


def legend(entries: Iterable[str]) -> str:
    """Return the legend of a picture."""
    return "\n".join(['<ul class="legend">', *entries, "</ul>"])


def key(name: str, text: str) -> str:
    """Return the entry of the legend for the marks of a class."""
    return _entry(_MARKS[name], text)


def split_key(index: int, text: str) -> str:
    """Return the entry of the legend for a split's line."""
    return _entry(f'<polyline class="split split-{index}" stroke-width="4" points="0,6 30,6"/>', text)


def pause_key(index: int) -> str:
    """Return the entry of the legend for pauses, in the colour of one split."""
    return _entry(f'<rect class="pause pause-{index}" y="-1" width="30" height="14" rx="3"/>', "paused")


def _entry(mark: str, text: str) -> str:
    return f'<li><svg viewBox="0 0 30 12">{mark}</svg>{escape(text)}</li>'


def table(columns: Sequence[str], rows: Iterable[str]) -> str:
    """Return a table; each row is the HTML of ``table_row``."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(rows)
    return f'<div class="scroll">\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>'


def table_row(cells: Sequence[str], classes: Mapping[int, str]) -> str:
    """Return a row of the table; ``classes`` has the classes of some cells, counted from 0."""
    html = (
        f'<td class="{classes[i]}">{escape(cell)}</td>' if i in classes else f"<td>{escape(cell)}</td>"
        for i, cell in enumerate(cells)
    )
    return f"<tr>{''.join(html)}</tr>"


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
_MOST_TICKS = 8
_STEPS_MS = (
    *(_SECOND_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_MS * n for n in (1, 2, 3, 6, 12)),
    *(_DAY_MS * digit * 10**power for power in range(6) for digit in (1, 2, 5)),
)
_HOUR_STEPS = (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 168, 336, 720, 2160, 8760)
_WIDTH = 560
_RIGHT, _TOP, _BOTTOM = 14, 14, 46
_LEAST_LEFT, _TITLE_LEFT, _LETTER = 68, 34, 8.0


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis over [begin, end], which is never empty: of times in ms, or other values.  Each tick has a label."""

    title: str
    begin: float
    end: float
    ticks: Sequence[tuple[float, str]]


def hours_since(begin_ms: int, end_ms: int) -> Axis:
    """Return an axis of whole hours since its beginning, for a history with meaningless dates."""
    hours = max(1, -(-(end_ms - begin_ms) // _HOUR_MS))
    return Axis(
        "event time since the first row",
        begin_ms,
        begin_ms + hours * _HOUR_MS,
        [(begin_ms + hour * _HOUR_MS, f"{hour} h") for hour in tick_range(hours)],
    )


def utc_times(begin_ms: int, end_ms: int) -> Axis:
    """Return an axis in UTC; its labels have the parts of date and time that the step of its ticks needs."""
    end_ms = max(end_ms, begin_ms + _SECOND_MS)
    step_ms = next((step for step in _STEPS_MS if (end_ms - begin_ms) / step <= _MOST_TICKS), _STEPS_MS[-1])
    times = range(-(-begin_ms // step_ms) * step_ms, end_ms + 1, step_ms)
    days = step_ms >= _DAY_MS
    of_one_day = not days and begin_ms // _DAY_MS == end_ms // _DAY_MS
    title = f"event time, {clock_time(begin_ms)[:10]}, UTC" if of_one_day else "event time, UTC"
    return Axis(title, begin_ms, end_ms, [(at, _label(at, step_ms, of_one_day=of_one_day)) for at in times])


def tick_range(most: int) -> range:
    """Return the ticks of an axis that counts from 0 up to ``most``."""
    step = next((step for step in _HOUR_STEPS if most / step <= _MOST_TICKS), max(1, most // _MOST_TICKS))
    return range(0, most + 1, step)


def _label(at_ms: int, step_ms: int, *, of_one_day: bool) -> str:
    date, time_of_day = clock_time(at_ms).split(" ")
    if step_ms >= _DAY_MS:
        return date
    time_of_day = time_of_day if step_ms < _MINUTE_MS else time_of_day[:5]
    return time_of_day if of_one_day else f"{date[5:]} {time_of_day}"


@dataclass(frozen=True, slots=True)
class Canvas:
    """A picture with a width of 560 units, which scales to its container; batches go from left to right.

    axis: the vertical one.
    across: the title of the horizontal axis; other things than batches may also stand side by side.
    ticks: the places and the labels of the horizontal axis; empty: the numbers of the batches, where they begin.
    widest: a label of the vertical axis for which there is space in any case.
    """

    batches: Sequence[int]
    height: int
    axis: Axis
    across: str = "micro-batches"
    ticks: Sequence[tuple[float, str]] = ()
    widest: str = ""

    @property
    def left(self) -> float:
        """The x at which the first batch begins."""
        letters = max(len(label) for label in [self.widest, *(label for _, label in self.axis.ticks)])
        return round(max(_LEAST_LEFT, _TITLE_LEFT + _LETTER * letters))

    @property
    def bottom(self) -> int:
        """The y of the lowest value."""
        return self.height - _BOTTOM

    def x(self, batch: float) -> float:
        """Return the x at which a batch begins, counted from 0; the last batch ends where the next would begin."""
        return round(self.left + batch * (_WIDTH - self.left - _RIGHT) / max(1, len(self.batches)), 1)

    def y(self, value: float) -> float:
        """Return the y of a value of the vertical axis, kept within the picture."""
        share = (value - self.axis.begin) / (self.axis.end - self.axis.begin)
        return round(self.bottom - min(max(share, 0), 1) * (self.bottom - _TOP), 1)

    def frame(self) -> Iterator[str]:
        """Yield the marks of both axes."""
        left, right, bottom = self.x(0), self.x(len(self.batches)), self.bottom
        for value, label in self.axis.ticks:
            y = self.y(value)
            yield f'<path class="grid" d="M{left} {y}H{right}"/>'
            yield f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>'
        for place, label in self._across():
            x = self.x(place)
            yield f'<path class="grid" d="M{x} {bottom}v5"/>'
            yield f'<text x="{x}" y="{bottom + 19}" text-anchor="middle">{escape(label)}</text>'
        yield f'<text x="{(left + right) / 2}" y="{self.height - 6}" text-anchor="middle">{escape(self.across)}</text>'
        turned = f"translate(13 {(_TOP + bottom) / 2}) rotate(-90)"
        yield f'<text transform="{turned}" text-anchor="middle">{escape(self.axis.title)}</text>'

    def _across(self) -> Iterator[tuple[float, str]]:
        """Yield the ticks of the horizontal axis; of many labels, as many as fit."""
        if not self.ticks:
            yield from ((batch, str(self.number(batch))) for batch in tick_range(len(self.batches)))
            return
        widest = _LETTER * (1 + max(len(label) for _, label in self.ticks))
        yield from self.ticks[:: math.ceil(widest * len(self.ticks) / (_WIDTH - self.left - _RIGHT))]

    def number(self, batch: int) -> int:
        """Return the number of a batch, counted from 0; after the last batch, the number of the next one."""
        return self.batches[batch] if batch < len(self.batches) else (self.batches[-1] + 1 if self.batches else 0)

    def svg(self, marks: Iterable[str], description: str) -> str:
        """Return the SVG element; ``description`` is for people who cannot see the picture."""
        return (
            f'<svg viewBox="0 0 {_WIDTH} {self.height}" role="img" aria-label="{escape(description)}">\n'
            + "\n".join(marks)
            + "\n</svg>"
        )
