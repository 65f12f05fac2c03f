"""The canvas of a picture in SVG: its size, the places of its batches, and its frame.

The page sets the colours: every mark has a class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tidegate.jobs.pages.axis import Axis, tick_range

_WIDTH = 560
_RIGHT, _TOP, _BOTTOM = 14, 14, 46
_LEAST_LEFT, _TITLE_LEFT, _LETTER = 68, 34, 8.0


@dataclass(frozen=True, slots=True)
class Canvas:
    """A picture with a width of 560 units, which scales to its container; batches go from left to right.

    axis: the vertical one.
    across: the title of the horizontal axis; other things than batches may stand side by side, too.
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
