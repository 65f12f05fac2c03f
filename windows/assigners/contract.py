"""The contract of a window assigner, and assigners by one time of rows, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tidegate.windows.contexts import WindowAssignerContext
from tidegate.windows.rows import Places, RowsReader, Times
from tidegate.windows.triggers.contract import Trigger
from tidegate.windows.triggers.of_time import EndOfStreamTrigger, EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from tidegate.windows.window import GlobalWindow, TimeWindow, Window


class Assigned(NamedTuple):
    """A window, and the places of its rows within their batch, in order of arrival.

    places: None: the window holds all rows of the batch.
    """

    window: Window
    places: Places | None


class WindowAssigner(RowsReader, ABC):
    """Assigns rows to windows."""

    merges: bool = False
    """Whether windows may become one; all of them are then TimeWindows."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A shorter way that was inherited would not know of windows that are assigned or merged in another way.
        if {"assign_windows", "merge_windows"} & vars(cls).keys() and "assign_batch" not in vars(cls):
            cls.assign_batch = WindowAssigner.assign_batch  # type: ignore[method-assign]

    @abstractmethod
    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> Sequence[Window]:
        """Return the windows of a row.

        timestamp: the row's event time in ms.
        """

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned] | None:
        """Return each window of a batch once; the windows of one row are in the order of ``assign_windows``.

        timestamps: the rows' event times in ms, at least one.  Windows that merge must be merged, and are in any
        order.  None: the operator assigns the rows one by one, as for a subclass with another ``assign_windows`` or
        ``merge_windows`` and no ``assign_batch`` of its own.
        """
        return None

    @abstractmethod
    def get_default_trigger(self) -> Trigger:
        """Return the trigger that is used if the user chooses none."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether windows end in event time.  Rows can be late only then."""


class MergeCallback(Protocol):
    """Takes the windows that become one."""

    def merge(self, to_be_merged: Collection[TimeWindow], merge_result: TimeWindow) -> None:
        """Merge windows.

        to_be_merged: some of the windows that ``merge_windows`` was given; each of them in one call at most.
        """


class MergingWindowAssigner(WindowAssigner):
    """An assigner whose windows may merge: by default, windows that overlap or touch become one."""

    merges = True

    def merge_windows(self, windows: Sequence[TimeWindow], callback: MergeCallback) -> None:
        """Call ``callback.merge`` for each group of windows that become one.  Called for each new window of a key.

        windows: the open windows of the key and the new one, in order of time.
        """
        group = [windows[0]]
        cover = windows[0]
        for window in windows[1:]:
            if cover.intersects(window):
                group.append(window)
                cover = cover.cover(window)
                continue
            if len(group) > 1:
                callback.merge(group, cover)
            group, cover = [window], window
        if len(group) > 1:
            callback.merge(group, cover)


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


ALL = GlobalWindow()


class GlobalWindows(WindowAssigner):
    """All rows of a key in one window, which is never cleaned up."""

    reads_rows = False

    def __init__(self, default_trigger: Trigger) -> None:
        self._default_trigger = default_trigger

    @classmethod
    def create(cls) -> GlobalWindows:
        """Return the assigner.  Its window never fires unless the user sets a trigger."""
        return cls(NeverTrigger.create())

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> GlobalWindows:
        """Return the assigner; its window fires at the end of a bounded stream."""
        return cls(EndOfStreamTrigger.create())

    def assign_windows(
        self, element: Mapping[str, Any], timestamp: int, context: WindowAssignerContext
    ) -> list[GlobalWindow]:
        """Return the one window."""
        return [ALL]

    def assign_batch(self, timestamps: Times, context: WindowAssignerContext) -> list[Assigned]:
        """Return the one window."""
        return [Assigned(ALL, None)]

    def get_default_trigger(self) -> Trigger:
        """Return the trigger that was chosen with the assigner."""
        return self._default_trigger

    def is_event_time(self) -> bool:
        """Return False: no row is ever late."""
        return False
