"""The two kinds of time in which windows end: what tumbling, sliding and session windows have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.windows.assigners.contract import Assigned, WindowAssigner
from tidegate.windows.contexts import WindowAssignerContext
from tidegate.windows.rows import Times
from tidegate.windows.triggers.contract import Trigger
from tidegate.windows.triggers.ends import EventTimeTrigger, ProcessingTimeTrigger
from tidegate.windows.window import TimeWindow


class OfTime(WindowAssigner):
    """Assigns rows to windows by one time of theirs."""

    @abstractmethod
    def windows_at(self, time: int, element: Mapping[str, Any]) -> Sequence[TimeWindow]:
        """Return the windows of a row with a time in ms."""


class InEventTime(OfTime):
    """Windows by the event times of rows."""

    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> Sequence[TimeWindow]:
        """Return the windows of the row's event time."""
        return self.windows_at(timestamp, element)

    def get_default_trigger(self) -> Trigger:
        """Return the event-time trigger."""
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return True: windows end in event time."""
        return True


class InProcessingTime(OfTime):
    """Windows by the clock, which shows one time for all rows of a batch."""

    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> Sequence[TimeWindow]:
        """Return the windows of the processing time."""
        return self.windows_at(context.get_current_processing_time(), element)

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned] | None:
        """Return the windows of the processing time, which all rows share; None: they also depend on the row."""
        if self.reads_rows:
            return None
        return [Assigned(window, None) for window in self.assign_windows({}, 0, context)]

    def get_default_trigger(self) -> Trigger:
        """Return the processing-time trigger."""
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        """Return False: windows end in processing time."""
        return False
