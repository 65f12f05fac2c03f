"""The contract of a window assigner: it decides which windows a row belongs to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tidegate.windows.assigners.stagger import WindowStagger
from tidegate.windows.rows import Places, RowsReader, Times
from tidegate.windows.triggers.contract import Trigger
from tidegate.windows.window import Window

__all__ = ["Assigned", "WindowAssigner", "WindowAssignerContext"]


class Assigned(NamedTuple):
    """A window, and the places of its rows within their batch, in order of arrival.

    places: None: the window holds all rows of the batch.
    """

    window: Window
    places: Places | None


class WindowAssignerContext(Protocol):
    """The clock of an operator, and one key's offset for staggered windows."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in ms."""

    def stagger_offset(self, stagger: WindowStagger, size: int) -> int:
        """Return the key's offset in ms, drawn when the first row of the key arrived."""


class WindowAssigner(RowsReader, ABC):
    """Assigns rows to windows."""

    merges: bool = False
    """Whether windows that overlap or touch become one; all of them are then TimeWindows."""

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
        order.  None: the operator assigns the rows one by one.
        """
        return None

    @abstractmethod
    def get_default_trigger(self) -> Trigger:
        """Return the trigger that is used if the user chooses none."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether windows end in event time.  Rows can be late only then."""
