"""Draws a run in SVG, batch by batch: the event time that every split reached, and columns of figures.

Pure logic: from a Trace to text.  Every mark has a class: ``split-0`` and so on in the order of names,
``pause-0`` ..., ``band``, ``slowest``, ``median``, ``fastest``, ``bound``, ``watermark``,
``source-watermark``, ``late``; in columns ``column`` and ``marked``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from html import escape

from tidegate.jobs.figures import count, split_name
from tidegate.jobs.pages.layout import Axis, Canvas
from tidegate.jobs.pages.trace import Trace

_HEIGHT = 400
_WIDTH = 2.8  # the width of a split's line
_TURN = 9  # the length of a line's turn, from left to right
_TURN_WIDTH = 2.0  # less than the line itself, whose edges would be drawn twice
_COLUMNS_HEIGHT = 164
_MOST_TICKS = 4
_STEPS = [digit * 10.0**power for power in range(-3, 18) for digit in (1, 2, 5)]
_WIDEST = "10,000,000"  # the same for all pictures, so that the batches of one are exactly below those of another
_GAP = 0.12  # the share of a column's width
_LEAST_PX = 1.0


def chart(
    run: Trace,
    axis: Axis,
    description: str,
    late_label: Sequence[str] = (),
) -> str:
    """Return an SVG element of 560 by 400 units, which scales to its container.

    axis: the axis of event time; values beyond it are drawn at its ends.
    description: a text for people who cannot see the picture.
    late_label: the lines of the label where splits ran below the watermark; empty: such places are not marked.
    """
    canvas = Canvas(run.batches, _HEIGHT, axis)
    marks = [
        *canvas.frame(),
        *(_late(canvas, run, late_label) if late_label else ()),
        *_pauses(canvas, run),
        *_area(canvas, run),
        *_stairs(canvas, run, "bound"),
        *_splits(canvas, run),
        *_stairs(canvas, run, "source-watermark"),
        *_stairs(canvas, run, "watermark"),
    ]
    return canvas.svg(marks, description)


def _points(canvas: Canvas, times: Sequence[int | None]) -> list[str]:
    """Return the points of the known times."""
    return [f"{canvas.x(i)},{canvas.y(t)}" for i, t in enumerate(times) if t is not None]


def _splits(canvas: Canvas, run: Trace) -> Iterator[str]:
    """Draw each split; lines that lie on each other take turns from left to right, so that all are visible."""
    lines = [" ".join(_points(canvas, times)) for times in run.reached.values()]
    names = run.reached if run.is_band else [f"split-{index}" for index in range(len(lines))]
    for name, points in zip(names, lines, strict=True):
        yield f'<polyline class="split {name}" stroke-width="{_WIDTH}" points="{points}"/>'
    for index, points in enumerate(lines if len(lines) > 1 and not run.is_band else ()):
        turn = f"turn-{index}-of-{len(lines)}"
        begin, end = index / len(lines), (index + 1) / len(lines)
        steps = ((begin, 0), (begin, 1), (end, 1), (end, 0))
        stops = "".join(f'<stop offset="{at:.4f}" stop-opacity="{seen}"/>' for at, seen in steps)
        yield (
            f'<linearGradient id="{turn}" class="split-{index}" gradientUnits="userSpaceOnUse" '
            f'x2="{_TURN * len(lines)}" spreadMethod="repeat">{stops}</linearGradient>'
            f'<polyline style="fill: none; stroke: url(#{turn})" stroke-width="{_TURN_WIDTH}" points="{points}"/>'
        )


def _area(canvas: Canvas, run: Trace) -> Iterator[str]:
    """Fill the area between the slowest split and the fastest."""
    if run.is_band:
        outline = [*_points(canvas, run.reached["slowest"]), *reversed(_points(canvas, run.reached["fastest"]))]
        yield f'<polygon class="band" points="{" ".join(outline)}"/>'


def _stairs(canvas: Canvas, run: Trace, name: str) -> Iterator[str]:
    """Draw values, each of which holds for a whole batch."""
    path, joined = "", False
    for batch, time_ms in enumerate(run.stairs.get(name, ())):
        if time_ms is None:
            joined = False
            continue
        y = canvas.y(time_ms)
        path += f"V{y}" if joined else f"M{canvas.x(batch)} {y}"
        path += f"H{canvas.x(batch + 1)}"
        joined = True
    if path:
        yield f'<path class="{name}" d="{path}"/>'


def _pauses(canvas: Canvas, run: Trace) -> Iterator[str]:
    """Draw a bar for each pause; where the page is shown, its title appears under the pointer."""
    for index, (split, paused) in enumerate(run.paused.items()):
        for first, last in _spans(paused):
            if (at_ms := run.reached[split][first]) is not None:
                left, right = canvas.x(first), canvas.x(last + 1)
                during = f"batches {canvas.number(first)} to {canvas.number(last)}"
                yield (
                    f'<rect class="pause pause-{index}" x="{left}" y="{canvas.y(at_ms) - 8}" '
                    f'width="{round(right - left, 1)}" height="16" rx="3">'
                    f"<title>{escape(split_name(split))} paused, {during}</title></rect>"
                )


def _spans(batches: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last batch of every unbroken run of batches."""
    for first in sorted(batch for batch in batches if batch - 1 not in batches):
        last = first
        while last + 1 in batches:
            last += 1
        yield first, last


def _late(canvas: Canvas, run: Trace, label: Sequence[str]) -> Iterator[str]:
    """Fill the area between the watermark and the slowest split below it: rows read there are dropped."""
    pieces, widest, at = "", 0.0, (0.0, 0.0)
    for batch, watermark_ms in enumerate(run.stairs["watermark"]):
        begin_ms = min((t for times in run.reached.values() if (t := times[batch]) is not None), default=None)
        end_ms = min((t for times in run.reached.values() if (t := times[batch + 1]) is not None), default=None)
        if watermark_ms is None or begin_ms is None or end_ms is None or begin_ms >= watermark_ms:
            continue
        left, right, top = canvas.x(batch), canvas.x(batch + 1), canvas.y(watermark_ms)
        pieces += f"M{left} {top}H{right}V{max(top, canvas.y(end_ms))}L{left} {canvas.y(begin_ms)}Z"
        if canvas.y(begin_ms) - top > widest:
            widest, at = canvas.y(begin_ms) - top, (left, (canvas.y(begin_ms) + top) / 2)
    if not pieces:
        return
    yield f'<path class="late" d="{pieces}"/>'
    for line, text in enumerate(label):
        yield f'<text class="note late-label" x="{at[0] + 12}" y="{at[1] - 40 + 18 * line}">{escape(text)}</text>'


def columns(
    batches: Sequence[int], heights: Sequence[float], title: str, description: str, marked: Collection[int] = ()
) -> str:
    """Return an SVG element of 560 by 164 units, which scales to its container.

    heights: one for each batch, at least 0.  If all are ints, no tick is between whole numbers.
    description: a text for people who cannot see the picture.
    marked: the batches, counted from 0, with the class ``marked`` instead of ``column``.
    """
    top, step = _scale(max(heights, default=0), least=1 if all(isinstance(height, int) for height in heights) else 0)
    ticks = [(number * step, _figure(number * step)) for number in range(round(top / step) + 1)]
    canvas = Canvas(batches, _COLUMNS_HEIGHT, Axis(title, 0, top, ticks), widest=_WIDEST)
    return canvas.svg([*canvas.frame(), *_paths(canvas, heights, frozenset(marked))], description)


def _paths(canvas: Canvas, heights: Sequence[float], marked: frozenset[int]) -> Iterator[str]:
    """Draw all columns of a class as one path, because there may be thousands."""
    pieces = {"column": "", "marked": ""}
    for batch, height in enumerate(heights):
        if height:
            left, right = canvas.x(batch + _GAP / 2), canvas.x(batch + 1 - _GAP / 2)
            top = min(canvas.y(height), canvas.bottom - _LEAST_PX)  # a value above 0 must be visible
            pieces["marked" if batch in marked else "column"] += (
                f"M{left} {canvas.bottom}V{top}H{right}V{canvas.bottom}Z"
            )
    for name, path in pieces.items():
        if path:
            yield f'<path class="{name}" d="{path}"/>'


def _scale(greatest: float, least: float) -> tuple[float, float]:
    """Return the end of the axis, at or past the greatest value, and the distance of its ticks, at least ``least``."""
    step = next(step for step in _STEPS if step >= least and greatest <= step * _MOST_TICKS)
    return max(step, math.ceil(greatest / step) * step), step


def _figure(value: float) -> str:
    return count(value) if value == int(value) else f"{value:g}"
