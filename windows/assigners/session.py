"""Session windows: rows that follow each other within a gap are in one window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
from typing_extensions import Self

from tidegate.windows.assigners.contract import Assigned, InEventTime, InProcessingTime, MergingWindowAssigner, OfTime
from tidegate.windows.callables import check_takes
from tidegate.windows.contexts import WindowAssignerContext
from tidegate.windows.rows import Times
from tidegate.windows.window import TimeWindow, duration_ms


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
