"""A run as a picture: the event time that every split reached, batch by batch, in SVG.

Pure: from a Trace to text.  Colours are left to the page: every mark has a class (``split-0`` and
so on in the order of names, ``bound``, ``watermark``, ``late``, ``pause-0`` ...).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tidegate.jobs.trace import Trace

__all__ = ["chart"]

_WIDTH, _HEIGHT = 560, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 14, 14, 46
_HOUR_MS = 3_600_000
_STEPS = (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 168, 336, 720, 2160, 8760)
_MOST_TICKS = 8
_THINNEST, _THICKER, _THICKEST = 2.0, 2.6, 10.0


class _Canvas:
    """Where batches and event times lie on the picture."""

    def __init__(self, run: Trace, end_ms: int) -> None:
        self.batches = len(run.bound)
        self.begin_ms = min((times[0] for times in run.reached.values()), default=0)
        self.hours = max(1, -(-(end_ms - self.begin_ms) // _HOUR_MS))

    def x(self, batch: float) -> float:
        """Return where a batch begins; the last one ends where the next would begin."""
        return round(_LEFT + batch * (_WIDTH - _LEFT - _RIGHT) / max(1, self.batches), 1)

    def y(self, time_ms: float) -> float:
        """Return the height of an event time, kept within the picture."""
        hour = min(max((time_ms - self.begin_ms) / _HOUR_MS, 0), self.hours)
        return round(_HEIGHT - _BOTTOM - hour * (_HEIGHT - _TOP - _BOTTOM) / self.hours, 1)


def chart(run: Trace, end_ms: int, description: str, late_label: Sequence[str] = ()) -> str:
    """Return an SVG element of 560 by 400 units, which scales to its container.

    end_ms: the last event time of the history, where the vertical axis ends.
    description: for those who cannot see it.
    late_label: lines written where splits ran below the watermark, if any did.
    """
    canvas = _Canvas(run, end_ms)
    marks = [
        *_grid(canvas),
        *_late(canvas, run, late_label),
        *_pauses(canvas, run),
        _stairs(canvas, run.bound, "bound"),
        *_splits(canvas, run),
        _stairs(canvas, run.watermark, "watermark"),
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(description)}">\n'
        + "\n".join(mark for mark in marks if mark)
        + "\n</svg>"
    )


def _grid(canvas: _Canvas) -> Iterator[str]:
    left, right, bottom = canvas.x(0), canvas.x(canvas.batches), _HEIGHT - _BOTTOM
    for hour in _ticks(canvas.hours):
        y = canvas.y(canvas.begin_ms + hour * _HOUR_MS)
        yield f'<path class="grid" d="M{left} {y}H{right}"/>'
        yield f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{hour} h</text>'
    for batch in _ticks(canvas.batches):
        x = canvas.x(batch)
        yield f'<path class="grid" d="M{x} {bottom}v5"/>'
        yield f'<text x="{x}" y="{bottom + 19}" text-anchor="middle">{batch}</text>'
    yield f'<text x="{(left + right) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">micro-batches</text>'
    turned = f"translate(13 {(_TOP + bottom) / 2}) rotate(-90)"
    yield f'<text transform="{turned}" text-anchor="middle">event time since the first row</text>'


def _ticks(most: int) -> range:
    step = next((step for step in _STEPS if most / step <= _MOST_TICKS), max(1, most // _MOST_TICKS))
    return range(0, most + 1, step)


def _splits(canvas: _Canvas, run: Trace) -> Iterator[str]:
    """Draw each split narrower than the one below it, so that equal lines all show."""
    for index, times in enumerate(run.reached.values()):
        width = min(_THICKEST, _THINNEST + _THICKER * (len(run.reached) - 1 - index))
        points = " ".join(f"{canvas.x(i)},{canvas.y(t)}" for i, t in enumerate(times))
        yield f'<polyline class="split split-{index}" stroke-width="{width:.1f}" points="{points}"/>'


def _stairs(canvas: _Canvas, times: Sequence[int | None], name: str) -> str:
    """Draw what holds for a whole batch each."""
    path, joined = "", False
    for batch, time_ms in enumerate(times):
        if time_ms is None:
            joined = False
            continue
        y = canvas.y(time_ms)
        path += f"V{y}" if joined else f"M{canvas.x(batch)} {y}"
        path += f"H{canvas.x(batch + 1)}"
        joined = True
    return f'<path class="{name}" d="{path}"/>' if path else ""


def _pauses(canvas: _Canvas, run: Trace) -> Iterator[str]:
    for index, (split, times) in enumerate(run.reached.items()):
        spans = list(_spans(run.paused[split]))
        for first, last in spans:
            y = canvas.y(times[first])
            yield (
                f'<rect class="pause pause-{index}" x="{canvas.x(first)}" y="{y - 8}" '
                f'width="{round(canvas.x(last + 1) - canvas.x(first), 1)}" height="16" rx="3"/>'
            )
        if spans:
            first, last = spans[0]
            yield (
                f'<text class="note split-{index}" x="{canvas.x(first) + 8}" y="{canvas.y(times[first]) + 25}">'
                f"{escape(split)} paused, batches {first} to {last}</text>"
            )


def _spans(batches: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of every unbroken row of batches."""
    for first in sorted(batch for batch in batches if batch - 1 not in batches):
        last = first
        while last + 1 in batches:
            last += 1
        yield first, last


def _late(canvas: _Canvas, run: Trace, label: Sequence[str]) -> Iterator[str]:
    """Fill what lies between the watermark and the slowest split below it: rows read there are dropped."""
    pieces, widest, at = "", 0.0, (0.0, 0.0)
    for batch, watermark_ms in enumerate(run.watermark):
        if watermark_ms is None:
            continue
        begin_ms = min(times[batch] for times in run.reached.values())
        end_ms = min(times[batch + 1] for times in run.reached.values())
        if begin_ms >= watermark_ms:
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
