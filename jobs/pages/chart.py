"""Draws a run in SVG: the event time that every split reached, batch by batch.

Pure: from a Trace to text.  Every mark has a class: ``split-0`` and so on in the order of names,
``pause-0`` ..., ``band``, ``slowest``, ``median``, ``fastest``, ``bound``, ``watermark``,
``source-watermark``, ``late``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tidegate.jobs.pages.axis import Axis
from tidegate.jobs.pages.canvas import Canvas
from tidegate.jobs.pages.trace import Band, Trace

__all__ = ["chart"]

_HEIGHT = 400
_THINNEST, _THICKER, _THICKEST = 2.0, 2.6, 10.0
_NOTED_SHARE = 0.25  # of the batches: a shorter pause has no space for its note
_LONG_SHARE = 0.65
_LINE, _LETTER = 16, 7.5  # of a note, in units of the picture; a letter is as wide at most


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

    def points(self, times: Sequence[int | None]) -> list[str]:
        return [f"{self.x(i)},{self.y(t)}" for i, t in enumerate(times) if t is not None]


def chart(run: Trace, axis: Axis, description: str, late_label: Sequence[str] = ()) -> str:
    """Return an SVG element of 560 by 400 units, which scales to its container.

    axis: of event time; values beyond it are drawn at its ends.
    description: for people who cannot see it.
    late_label: lines at the places where splits ran below the watermark; empty: such places are not marked.
    """
    picture = _Picture(Canvas(run.batches, _HEIGHT, [label for _, label in axis.ticks]), axis)
    marks = [
        *picture.canvas.frame(axis.title, [(picture.share(at_ms), label) for at_ms, label in axis.ticks]),
        *(_late(picture, run, late_label) if late_label else ()),
        *_pauses(picture, run),
        *_area(picture, run.band),
        _stairs(picture, run.bound, "bound"),
        *_splits(picture, run),
        *_envelope(picture, run.band),
        _stairs(picture, run.source_watermark, "source-watermark"),
        _stairs(picture, run.watermark, "watermark"),
    ]
    return picture.canvas.svg(marks, description)


def _splits(picture: _Picture, run: Trace) -> Iterator[str]:
    """Draw each split narrower than the one below it, so that equal lines all show."""
    others = len(run.reached) - 1
    thicker = min(_THICKER, (_THICKEST - _THINNEST) / max(1, others))
    for index, times in enumerate(run.reached.values()):
        width = _THINNEST + thicker * (others - index)
        points = " ".join(picture.points(times))
        yield f'<polyline class="split split-{index}" stroke-width="{width:.1f}" points="{points}"/>'


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
    """Draw values that hold for a whole batch each."""
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


def _pauses(picture: _Picture, run: Trace) -> Iterator[str]:
    noted: list[tuple[float, float]] = []
    for index, (split, times) in enumerate(run.reached.items()):
        spans = [
            (first, last, picture.y(at_ms))
            for first, last in _spans(run.paused[split])
            if (at_ms := times[first]) is not None
        ]
        for first, last, y in spans:
            yield (
                f'<rect class="pause pause-{index}" x="{picture.x(first)}" y="{y - 8}" '
                f'width="{round(picture.x(last + 1) - picture.x(first), 1)}" height="16" rx="3"/>'
            )
        first, last, y = max(spans, key=lambda span: span[1] - span[0], default=(0, -1, 0.0))
        length, note = last + 1 - first, f"{escape(split)} paused"
        if length >= max(1, len(run.batches) * _NOTED_SHARE):
            if length >= len(run.batches) * _LONG_SHARE:
                note += f", batches {picture.canvas.number(first)} to {picture.canvas.number(last)}"
                y += 25
            else:
                y -= 14  # below a short one are the lines of the others
            x = picture.x(first) + 8
            y = _free(y, [taken for taken, end in noted if end > x])
            noted.append((y, x + len(note) * _LETTER))
            yield f'<text class="note split-{index}" x="{x}" y="{y}">{note}</text>'


def _free(y: float, taken: Sequence[float]) -> float:
    """Return the nearest place for a line of text, at or below ``y``, that lies on no other line."""
    for other in sorted(taken):
        if abs(y - other) < _LINE:
            y = other + _LINE
    return y


def _spans(batches: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of every unbroken row of batches."""
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
