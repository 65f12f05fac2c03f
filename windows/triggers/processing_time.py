"""The trigger of processing-time windows: they fire once the clock reaches their last millisecond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.windows.triggers.contract import OnMergeContext, QuietTrigger, TriggerContext, TriggerResult
from tidegate.windows.window import Window


class ProcessingTimeTrigger(QuietTrigger):
    """Fires when the processing time reaches the end of the window."""

    stateless = first_row_decides = True
    event_time = False
    processing_time = True
    reads_rows = False

    @classmethod
    def create(cls) -> ProcessingTimeTrigger:
        """Return the trigger."""
        return cls()

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Wait for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Merge windows."""
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Wait for the end of the merged window, unless it has passed."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Delete the timer of the window's end."""
        ctx.delete_processing_time_timer(window.max_timestamp())
