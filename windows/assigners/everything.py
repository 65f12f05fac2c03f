"""The global window: all rows of a key, for triggers and evictors that cut it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.windows.assigners.contract import Assigned, WindowAssigner
from tidegate.windows.contexts import WindowAssignerContext
from tidegate.windows.rows import Times
from tidegate.windows.triggers.contract import Trigger
from tidegate.windows.triggers.ends import EndOfStreamTrigger, NeverTrigger
from tidegate.windows.window import GlobalWindow

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
