"""The axes of a picture: the places and the labels of their ticks.  Pure logic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.jobs.figures import clock_time

_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
_MOST_TICKS = 8
_STEPS_MS = (
    *(_SECOND_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_MS * n for n in (1, 2, 3, 6, 12)),
    *(_DAY_MS * digit * 10**power for power in range(6) for digit in (1, 2, 5)),
)
_HOUR_STEPS = (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 168, 336, 720, 2160, 8760)


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
