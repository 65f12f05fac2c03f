"""The contract of a trigger: it decides when a window's pane gives results, and when its rows are removed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar

from tidegate.errors import OptionError
from tidegate.windows.contexts import OnMergeContext, TriggerContext
from tidegate.windows.rows import RowsReader
from tidegate.windows.window import Window


class TriggerResult(Enum):
    """The decision of a trigger.

    FIRE gives a result.  PURGE clears the rows of the window, and keeps the window and the trigger's state.
    """

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    def __init__(self, fires: bool, purges: bool) -> None:
        self.fires, self.purges = fires, purges

    def is_fire(self) -> bool:
        """Return whether the window gives a result."""
        return self.fires

    def is_purge(self) -> bool:
        """Return whether the rows of the window are removed."""
        return self.purges


class Trigger(RowsReader, ABC):
    """Decides when the pane of a window fires.

    One object serves all keys and windows, so a trigger keeps its state in the context (``get_partitioned_state``).
    """

    uninherited: ClassVar[Mapping[str, bool]] = {"reads_rows": True, "stateless": False, "first_row_decides": False}

    first_row_decides: bool = False
    """Whether only the first of the rows that a batch adds to a window matters, and only by its event time.

    ``on_element`` is then called without columns.  Either it goes on, and is not called for the other rows; or it
    fires or purges and has changed nothing, and is called for each row.
    """

    stateless: bool = False
    """Whether not even the event time matters: decisions depend only on the window and the clocks."""

    frees_rows: bool = False
    """Whether the trigger removes rows of a global window some day, so that its state does not grow for ever."""

    event_time: bool | None = None
    processing_time: bool | None = None
    """Whether the trigger registers timers in this kind of time; None: unknown before it runs."""

    @abstractmethod
    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Decide for a row that was added to the window."""

    @abstractmethod
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide when an event-time timer fires; also called at the timer of the window's cleanup."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide when a processing-time timer fires; also called at the timer of the window's cleanup."""

    def can_merge(self) -> bool:
        """Return whether the trigger works with windows that merge."""
        return False

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Merge the state of windows that became this window, and register its timers."""
        raise OptionError(f"{type(self).__name__} can merge, so it needs on_merge.")

    @abstractmethod
    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Remove the state and the timers of a window that is removed."""


class QuietTrigger(Trigger):
    """Goes on at timers, and leaves nothing behind.  Subclasses override what they do otherwise."""

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Do nothing."""


class OneClockTrigger(QuietTrigger):
    """Has timers of one clock, whatever others a subclass has."""

    _by_watermark: ClassVar[bool]

    def _register_timer(self, time: int, ctx: TriggerContext) -> None:
        register = ctx.register_event_time_timer if self._by_watermark else ctx.register_processing_time_timer
        register(time)

    def _delete_timer(self, time: int, ctx: TriggerContext) -> None:
        delete = ctx.delete_event_time_timer if self._by_watermark else ctx.delete_processing_time_timer
        delete(time)
