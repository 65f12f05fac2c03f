"""Draws a run in SVG: the event time that every split reached, batch by batch.

Pure logic: from a Trace to text.  Every mark has a class: ``split-0`` and so on in the order of names,
``pause-0`` ..., ``band``, ``slowest``, ``median``, ``fastest``, ``bound``, ``watermark``,
``source-watermark``, ``late``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from tidegate.jobs.pages.axis import Axis
from tidegate.jobs.pages.canvas import Canvas
from tidegate.jobs.pages.trace import Band, Trace

__all__ = ["chart"]

_HEIGHT = 400
_WIDTH = 2.8  # the width of a split's line
_TOGETHER = 2.0  # lines at most this far apart look like one
_DASH = 9
_NOTED_SHARE = 0.25  # the share of the batches; a shorter pause has no space for its note
_LONG_SHARE = 0.65
_LINE, _LETTER = 16, 7.5  # the height of a note's line, and the greatest width of a letter, in units of the picture


@dataclass(frozen=True, slots=True)
class _Picture:
    """The places of batches and event times."""

    canvas: Canvas
    axis: Axis

    def x(self, batch: float) -> float:
        return self.canvas.x(batch)

    def share(self, time_ms: float) -> float:
        return (time_ms - self.axis.begin_ms) / (self.axis.end_ms - self.axis.begin_ms)

    def y(self, time_ms: float) -> float:
        return self.canvas.y(self.share(time_ms))

    def points(self, times: Sequence[int | None], first: int = 0, last: int | None = None) -> list[str]:
        """Return the points of the known times from the batch ``first`` to ``last``; the default is all."""
        last = len(times) - 1 if last is None else last
        return [f"{self.x(i)},{self.y(t)}" for i, t in enumerate(times) if t is not None and first <= i <= last]


def chart(run: Trace, axis: Axis, description: str, late_label: Sequence[str] = ()) -> str:
    """Return an SVG element of 560 by 400 units, which scales to its container.

    axis: the axis of event time; values beyond it are drawn at its ends.
    description: a text for people who cannot see the picture.
    late_label: the lines of the label where splits ran below the watermark; empty: such places are not marked.
    """
    picture = _Picture(Canvas(run.batches, _HEIGHT, [label for _, label in axis.ticks]), axis)
    bars = _bars(picture, run)
    marks = [
        *picture.canvas.frame(axis.title, [(picture.share(at_ms), label) for at_ms, label in axis.ticks]),
        *(_late(picture, run, late_label) if late_label else ()),
        *_pauses(picture, bars),
        *_area(picture, run.band),
        _stairs(picture, run.bound, "bound"),
        *_splits(picture, run),
        *_envelope(picture, run.band),
        _stairs(picture, run.source_watermark, "source-watermark"),
        _stairs(picture, run.watermark, "watermark"),
        *_notes(picture, bars),
    ]
    return picture.canvas.svg(marks, description)


def _splits(picture: _Picture, run: Trace) -> Iterator[str]:
    """Draw each split; lines that lie on each other alternate in dashes, so that all are visible."""
    lines = list(run.reached.values())
    for index, times in enumerate(lines):
        points = " ".join(picture.points(times))
        yield f'<polyline class="split split-{index}" stroke-width="{_WIDTH}" points="{points}"/>'
    for members, first, last in _shared(picture, lines):
        points = " ".join(picture.points(lines[members[0]], first, last + 1))
        turns = f"{_DASH} {_DASH * (len(members) - 1)}"
        for turn, index in enumerate(members):
            yield (
                f'<polyline class="split shared split-{index}" stroke-width="{_WIDTH}" stroke-dasharray="{turns}" '
                f'stroke-dashoffset="{-_DASH * turn}" points="{points}"/>'
            )


def _shared(picture: _Picture, lines: Sequence[Sequence[int | None]]) -> list[tuple[tuple[int, ...], int, int]]:
    """Return the groups of lines that lie on each other: their numbers, the first and the last batch."""
    stretches: list[tuple[tuple[int, ...], int, int]] = []
    going_on: dict[tuple[int, ...], int] = {}
    for batch in range(len(lines[0]) - 1 if lines else 0):
        before, going_on = going_on, {}
        for members in _together(picture, lines, batch):
            place = before.get(members, len(stretches))
            first = stretches[place][1] if members in before else batch
            stretches[place : place + 1] = [(members, first, batch)]
            going_on[members] = place
    return stretches


def _together(picture: _Picture, lines: Sequence[Sequence[int | None]], batch: int) -> Iterator[tuple[int, ...]]:
    """Yield the groups of lines that lie on each other in a batch."""
    groups: list[tuple[float, float, list[int]]] = []
    for index, times in enumerate(lines):
        begin_ms, end_ms = times[batch : batch + 2]
        if begin_ms is None or end_ms is None:
            continue
        begin, end = picture.y(begin_ms), picture.y(end_ms)
        near = (of for y, to, of in groups if abs(y - begin) <= _TOGETHER and abs(to - end) <= _TOGETHER)
        group = next(near, None)
        if group is None:
            groups.append((begin, end, [index]))
        else:
            group.append(index)
    return (tuple(members) for _, _, members in groups if len(members) > 1)


def _area(picture: _Picture, band: Band | None) -> Iterator[str]:
    """Fill the area between the slowest split and the fastest."""
    if band is not None:
        outline = [*picture.points(band.slowest), *reversed(picture.points(band.fastest))]
        yield f'<polygon class="band" points="{" ".join(outline)}"/>'


def _envelope(picture: _Picture, band: Band | None) -> Iterator[str]:
    lines = {} if band is None else {"median": band.median, "fastest": band.fastest, "slowest": band.slowest}
    for name, times in lines.items():
        yield f'<polyline class="split {name}" stroke-width="2" points="{" ".join(picture.points(times))}"/>'


def _stairs(picture: _Picture, times: Sequence[int | None], name: str) -> str:
    """Draw values, each of which holds for a whole batch."""
    path, joined = "", False
    for batch, time_ms in enumerate(times):
        if time_ms is None:
            joined = False
            continue
        y = picture.y(time_ms)
        path += f"V{y}" if joined else f"M{picture.x(batch)} {y}"
        path += f"H{picture.x(batch + 1)}"
        joined = True
    return f'<path class="{name}" d="{path}"/>' if path else ""


class _Bar(NamedTuple):
    """A pause of a split: the number of its line, its name, the first and the last batch, and the y of the bar."""

    number: int
    split: str
    first: int
    last: int
    y: float

    @property
    def batches(self) -> int:
        return self.last + 1 - self.first


def _bars(picture: _Picture, run: Trace) -> list[_Bar]:
    return [
        _Bar(index, split, first, last, picture.y(at_ms))
        for index, (split, times) in enumerate(run.reached.items())
        for first, last in _spans(run.paused[split])
        if (at_ms := times[first]) is not None
    ]


def _pauses(picture: _Picture, bars: Sequence[_Bar]) -> Iterator[str]:
    for bar in bars:
        yield (
            f'<rect class="pause pause-{bar.number}" x="{picture.x(bar.first)}" y="{bar.y - 8}" '
            f'width="{round(picture.x(bar.last + 1) - picture.x(bar.first), 1)}" height="16" rx="3"/>'
        )


def _notes(picture: _Picture, bars: Sequence[_Bar]) -> Iterator[str]:
    """Name the splits of long pauses, above all lines."""
    taken = [_Box(picture.x(bar.first), picture.x(bar.last + 1), bar.y - 8, bar.y + 8) for bar in bars]
    batches = len(picture.canvas.batches)
    for together in _noted(bars, batches):
        bar = min(together)
        note, y = f"{_names(sorted(together))} paused", together[0].y - 14  # below a short pause are other lines
        if bar.batches >= batches * _LONG_SHARE:
            note += f", batches {picture.canvas.number(bar.first)} to {picture.canvas.number(bar.last)}"
            y = together[-1].y + 25
        x = picture.x(bar.first) + 8
        box = _free(_Box(x, x + len(note) * _LETTER, y - _LINE + 4, y + 4), taken, picture.canvas.bottom)
        taken.append(box)
        yield f'<text class="note split-{bar.number}" x="{x}" y="{box.bottom - 4}">{note}</text>'


def _noted(bars: Sequence[_Bar], batches: int) -> list[list[_Bar]]:
    """Return the longest pause of each split that has space for a note; pauses close together share a note.

    Each group is in the order of its heights.
    """
    longest: dict[int, _Bar] = {}
    for bar in bars:
        longest[bar.number] = max(longest.get(bar.number, bar), bar, key=lambda pause: pause.batches)
    groups: list[list[_Bar]] = []
    for bar in sorted(longest.values(), key=lambda pause: (pause.first, pause.y)):
        if bar.batches < max(1, batches * _NOTED_SHARE):
            continue
        last = groups[-1][-1] if groups else None
        if last is not None and last.first == bar.first and bar.y - last.y < _LINE:
            groups[-1].append(bar)
        else:
            groups.append([bar])
    return groups


def _names(bars: Sequence[_Bar]) -> str:
    first, *others = [escape(bar.split) for bar in bars]
    return " and ".join([first, *(others if len(others) < 2 else [f"{len(others)} more"])])


class _Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.top < other.bottom and other.top < self.bottom


def _free(box: _Box, taken: Sequence[_Box], bottom: float) -> _Box:
    """Return the nearest place for a line of text, above or below, that is free."""
    for steps in range(int(bottom / _LINE)):
        for shift in (-steps * _LINE, steps * _LINE):
            moved = box._replace(top=box.top + shift, bottom=box.bottom + shift)
            if moved.top >= 0 and moved.bottom <= bottom and not any(map(moved.meets, taken)):
                return moved
    return box


def _spans(batches: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last batch of every unbroken run of batches."""
    for first in sorted(batch for batch in batches if batch - 1 not in batches):
        last = first
        while last + 1 in batches:
            last += 1
        yield first, last


def _late(picture: _Picture, run: Trace, label: Sequence[str]) -> Iterator[str]:
    """Fill the area between the watermark and the slowest split below it: rows read there are dropped."""
    pieces, widest, at = "", 0.0, (0.0, 0.0)
    for batch, watermark_ms in enumerate(run.watermark):
        begin_ms = min((t for times in run.reached.values() if (t := times[batch]) is not None), default=None)
        end_ms = min((t for times in run.reached.values() if (t := times[batch + 1]) is not None), default=None)
        if watermark_ms is None or begin_ms is None or end_ms is None or begin_ms >= watermark_ms:
            continue
        left, right, top = picture.x(batch), picture.x(batch + 1), picture.y(watermark_ms)
        pieces += f"M{left} {top}H{right}V{max(top, picture.y(end_ms))}L{left} {picture.y(begin_ms)}Z"
        if picture.y(begin_ms) - top > widest:
            widest, at = picture.y(begin_ms) - top, (left, (picture.y(begin_ms) + top) / 2)
    if not pieces:
        return
    yield f'<path class="late" d="{pieces}"/>'
    for line, text in enumerate(label):
        yield f'<text class="note late-label" x="{at[0] + 12}" y="{at[1] - 40 + 18 * line}">{escape(text)}</text>'
