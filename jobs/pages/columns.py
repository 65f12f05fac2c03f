"""Draws batches as columns in SVG: one height for each batch of a run.  Pure logic."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from tidegate.jobs.figures import count
from tidegate.jobs.pages.axis import Axis
from tidegate.jobs.pages.canvas import Canvas

_HEIGHT = 210
_MOST_TICKS = 4
_STEPS = [digit * 10.0**power for power in range(-3, 18) for digit in (1, 2, 5)]
_WIDEST = "10,000,000"  # the same for all pictures, so that the batches of one are exactly below those of another
_GAP = 0.12  # the share of a column's width
_LEAST_PX = 1.0


def columns(
    batches: Sequence[int], heights: Sequence[float], title: str, description: str, marked: Collection[int] = ()
) -> str:
    """Return an SVG element of 560 by 210 units, which scales to its container.

    heights: one for each batch, at least 0.  If all are ints, no tick is between whole numbers.
    description: a text for people who cannot see the picture.
    marked: the batches, counted from 0, with the class ``marked`` instead of ``column``.
    """
    top, step = _scale(max(heights, default=0), least=1 if all(isinstance(height, int) for height in heights) else 0)
    ticks = [(number * step, _figure(number * step)) for number in range(round(top / step) + 1)]
    canvas = Canvas(batches, _HEIGHT, Axis(title, 0, top, ticks), widest=_WIDEST)
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
