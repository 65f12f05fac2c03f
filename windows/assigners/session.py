"""Session windows: rows that follow each other within a gap are in one window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
from typing_extensions import Self

from tidegate.errors import OptionError
from tidegate.windows.assigners.contract import Assigned, MergingWindowAssigner, WindowAssigner, WindowAssignerContext
from tidegate.windows.callables import check_takes
from tidegate.windows.rows import Times
from tidegate.windows.triggers.contract import Trigger
from tidegate.windows.triggers.event_time import EventTimeTrigger
from tidegate.windows.triggers.processing_time import ProcessingTimeTrigger
from tidegate.windows.window import TimeWindow, duration_ms


class _EventTime(MergingWindowAssigner):
    """Sessions in event time."""

    def get_default_trigger(self) -> Trigger:
        """Return the event-time trigger."""
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return True: windows end in event time."""
        return True


class _ProcessingTime(MergingWindowAssigner):
    """Sessions in processing time."""

    def get_default_trigger(self) -> Trigger:
        """Return the processing-time trigger."""
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return False: windows end in processing time."""
        return False


class _FixedGap(WindowAssigner):
    """Sessions with one gap, in milliseconds."""

    def __init__(self, gap: int) -> None:
        self.gap = gap

    @classmethod
    def with_gap(cls, gap: timedelta) -> Self:
        """Return sessions that end when no row arrives for the length of the gap.

        Raises OptionError if the gap is not positive.
        """
        gap_ms = duration_ms("gap", gap)
        if gap_ms <= 0:
            raise OptionError(f"gap={gap} of {cls.__name__} must be positive.")
        return cls(gap_ms)


class _DynamicGap(WindowAssigner):
    """Sessions whose gap depends on the row."""

    def __init__(self, gap: Callable[[Mapping[str, Any]], timedelta]) -> None:
        self.gap = gap

    @classmethod
    def with_dynamic_gap(cls, gap: Callable[[Mapping[str, Any]], timedelta]) -> Self:
        """Return sessions with a gap of its own after each row.

        gap: takes a row and returns the gap after it.  It is called once per row.
        Raises OptionError if ``gap`` is no function, and for a row whose gap is not positive.
        """
        check_takes(gap, 1, f"gap of {cls.__name__} must be a function that takes a row and returns a timedelta,")
        return cls(gap)

    def window(self, element: Mapping[str, Any], time: int) -> TimeWindow:
        """Return the window of one row."""
        gap = self.gap(element)
        gap_ms = duration_ms("gap", gap)
        if gap_ms <= 0:
            raise OptionError(f"gap={gap} of {type(self).__name__} must be positive.")
        return TimeWindow(time, time + gap_ms)


class EventTimeSessionWindows(_EventTime, _FixedGap):
    """Sessions in event time with one gap: ``EventTimeSessionWindows.with_gap(timedelta(minutes=10))``."""

    reads_rows = False

    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the window from the row's event time to the end of the gap."""
        return [TimeWindow(timestamp, timestamp + self.gap)]

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned]:
        """Return the sessions of all rows, already merged."""
        order = np.argsort(timestamps, kind="stable")
        ordered = timestamps[order]
        bounds = np.flatnonzero(np.diff(ordered) > self.gap) + 1
        return [
            Assigned(TimeWindow(int(timestamps[part[0]]), int(timestamps[part[-1]]) + self.gap), np.sort(part))
            for part in np.split(order, bounds)
        ]


class DynamicEventTimeSessionWindows(_EventTime, _DynamicGap):
    """Sessions in event time whose gap depends on the row."""

    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the window from the row's event time to the end of its gap."""
        return [self.window(element, timestamp)]


class ProcessingTimeSessionWindows(_ProcessingTime, _FixedGap):
    """Sessions in processing time with one gap."""

    reads_rows = False

    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the window from now to the end of the gap."""
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self.gap)]

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned]:
        """Return the one session of all rows."""
        return [Assigned(self.assign_windows({}, 0, context)[0], None)]


class DynamicProcessingTimeSessionWindows(_ProcessingTime, _DynamicGap):
    """Sessions in processing time whose gap depends on the row."""

    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the window from now to the end of the row's gap."""
        return [self.window(element, context.get_current_processing_time())]
