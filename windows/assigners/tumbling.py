"""Tumbling windows: they have one size, and one follows the other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
from typing_extensions import Self

from tidegate.errors import OptionError
from tidegate.windows.assigners.contract import Assigned, WindowAssignerContext
from tidegate.windows.assigners.times import InEventTime, InProcessingTime, OfTime
from tidegate.windows.rows import Times
from tidegate.windows.window import TimeWindow, duration_ms, window_start


class _Tumbling(OfTime):
    """Windows of one size.  Times are in milliseconds."""

    def __init__(self, size: int, offset: int) -> None:
        self.size, self.offset = size, offset

    @classmethod
    def of(cls, size: timedelta, offset: timedelta = timedelta(0)) -> Self:
        """Return windows of a size.

        offset: shifts their starts, which otherwise are multiples of the size since 1970 UTC.
        Raises OptionError if the size is not positive, or if the offset is not smaller than the size.
        """
        size_ms, offset_ms = duration_ms("size", size, 1, f"of {cls.__name__}"), duration_ms("offset", offset)
        if abs(offset_ms) >= size_ms:
            raise OptionError(f"offset={offset} of {cls.__name__} must be smaller than size={size}.")
        return cls(size_ms, offset_ms)

    def windows_at(self, time: int, element: Mapping[str, Any]) -> list[TimeWindow]:
        """Return the window that holds a time."""
        return [self._window(time)]

    def _window(self, time: int) -> TimeWindow:
        start = window_start(time, self.offset, self.size)
        return TimeWindow(start, start + self.size)


class TumblingEventTimeWindows(InEventTime, _Tumbling):
    """Tumbling windows in event time: ``TumblingEventTimeWindows.of(timedelta(minutes=5))``."""

    reads_rows = False

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned]:
        """Return the windows of all rows."""
        first, last = (self._window(int(time)) for time in (timestamps.min(), timestamps.max()))
        if first == last:
            return [Assigned(first, None)]
        numbers = (timestamps - first.start) // self.size
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        bounds = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        starts = (first.start + numbers[[0, *bounds]] * self.size).tolist()
        return [
            Assigned(TimeWindow(start, start + self.size), places)
            for start, places in zip(starts, np.split(order, bounds), strict=True)
        ]


class TumblingProcessingTimeWindows(InProcessingTime, _Tumbling):
    """Tumbling windows in processing time."""

    reads_rows = False
