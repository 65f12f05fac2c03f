"""Windows of one size, which follow each other or begin every slide, and sessions, whose rows are within a gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
from typing_extensions import Self

from tidegate.errors import OptionError
from tidegate.windows.assigners.contract import Assigned, InEventTime, InProcessingTime, MergingWindowAssigner, OfTime
from tidegate.windows.callables import check_takes
from tidegate.windows.contexts import WindowAssignerContext
from tidegate.windows.rows import Times
from tidegate.windows.window import TimeWindow, duration_ms, window_start

MOST_WINDOWS = 10_000_000
"""The largest number of windows of one row, as in Flink."""


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


class _Sliding(OfTime):
    """Windows of one size; one begins every slide.  Times are in milliseconds."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self.size, self.slide, self.offset = size, slide, offset

    @classmethod
    def of(cls, size: timedelta, slide: timedelta, offset: timedelta = timedelta(0)) -> Self:
        """Return windows of a size; one begins every slide.

        offset: shifts their starts, which otherwise are multiples of the slide since 1970 UTC.
        Raises OptionError if size or slide is not positive, or if the offset is not smaller than the slide.
        """
        part = f"of {cls.__name__}"
        size_ms, slide_ms = duration_ms("size", size, 1, part), duration_ms("slide", slide, 1, part)
        offset_ms = duration_ms("offset", offset)
        if abs(offset_ms) >= slide_ms:
            raise OptionError(f"offset={offset} of {cls.__name__} must be smaller than slide={slide}.")
        if size_ms // slide_ms > MOST_WINDOWS:
            raise OptionError(f"slide={slide} of {cls.__name__} gives a row more than {MOST_WINDOWS} windows.")
        return cls(size_ms, slide_ms, offset_ms)

    def windows_at(self, time: int, element: Mapping[str, Any]) -> list[TimeWindow]:
        """Return the windows that hold a time, the last first."""
        last = window_start(time, self.offset, self.slide)
        return [TimeWindow(start, start + self.size) for start in range(last, time - self.size, -self.slide)]


class SlidingEventTimeWindows(InEventTime, _Sliding):
    """Sliding windows in event time: ``SlidingEventTimeWindows.of(timedelta(hours=1), timedelta(minutes=5))``."""

    reads_rows = False

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned] | None:
        """Return the windows of all rows, the last first; None: most windows would be empty."""
        order = np.argsort(timestamps, kind="stable")
        ordered = timestamps[order]
        last = window_start(int(ordered[-1]), self.offset, self.slide)
        starts = range(last, int(ordered[0]) - self.size, -self.slide)
        if len(starts) > len(timestamps) * (self.size // self.slide + 1):
            return None
        assigned = []
        for start in starts:
            begin, end = np.searchsorted(ordered, (start, start + self.size))
            if begin < end:
                assigned.append(Assigned(TimeWindow(start, start + self.size), np.sort(order[begin:end])))
        return assigned


class SlidingProcessingTimeWindows(InProcessingTime, _Sliding):
    """Sliding windows in processing time."""

    reads_rows = False


class _FixedGap(OfTime, MergingWindowAssigner):
    """Sessions with one gap, in milliseconds."""

    def __init__(self, gap: int) -> None:
        self.gap = gap

    @classmethod
    def with_gap(cls, gap: timedelta) -> Self:
        """Return sessions that end when no row arrives for the length of the gap.

        Raises OptionError if the gap is not positive.
        """
        return cls(duration_ms("gap", gap, 1, f"of {cls.__name__}"))

    def windows_at(self, time: int, element: Mapping[str, Any]) -> list[TimeWindow]:
        """Return the window from a time to the end of the gap."""
        return [TimeWindow(time, time + self.gap)]


class _DynamicGap(OfTime, MergingWindowAssigner):
    """Sessions whose gap depends on the row."""

    def __init__(self, gap: Callable[[Mapping[str, Any]], timedelta]) -> None:
        self.gap = gap

    @classmethod
    def with_dynamic_gap(cls, gap: Callable[[Mapping[str, Any]], timedelta]) -> Self:
        """Return sessions with a gap of its own after each row.

        gap: takes a row and returns the gap after it.  It is called once per row.
        Raises OptionError if ``gap`` is not a function, and for a row whose gap is not positive.
        """
        check_takes(gap, 1, f"gap of {cls.__name__} must be a function that takes a row and returns a timedelta,")
        return cls(gap)

    def windows_at(self, time: int, element: Mapping[str, Any]) -> list[TimeWindow]:
        """Return the window from a time to the end of the row's gap."""
        return [TimeWindow(time, time + duration_ms("gap", self.gap(element), 1, f"of {type(self).__name__}"))]


class EventTimeSessionWindows(InEventTime, _FixedGap):
    """Sessions in event time with one gap: ``EventTimeSessionWindows.with_gap(timedelta(minutes=10))``."""

    reads_rows = False

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned]:
        """Return the sessions of all rows, already merged."""
        order = np.argsort(timestamps, kind="stable")
        ordered = timestamps[order]
        bounds = np.flatnonzero(np.diff(ordered) > self.gap) + 1
        return [
            Assigned(TimeWindow(int(timestamps[part[0]]), int(timestamps[part[-1]]) + self.gap), np.sort(part))
            for part in np.split(order, bounds)
        ]


class DynamicEventTimeSessionWindows(InEventTime, _DynamicGap):
    """Sessions in event time whose gap depends on the row."""


class ProcessingTimeSessionWindows(InProcessingTime, _FixedGap):
    """Sessions in processing time with one gap."""

    reads_rows = False


class DynamicProcessingTimeSessionWindows(InProcessingTime, _DynamicGap):
    """Sessions in processing time whose gap depends on the row."""
