"""The trigger of event-time windows: they fire once the watermark reaches their last millisecond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.windows.triggers.contract import OnMergeContext, QuietTrigger, TriggerContext, TriggerResult
from tidegate.windows.window import Window


class EventTimeTrigger(QuietTrigger):
    """Fires when the watermark reaches the end of the window, and for each row after that."""

    stateless = first_row_decides = True
    event_time = True
    processing_time = False
    reads_rows = False

    @classmethod
    def create(cls) -> EventTimeTrigger:
        """Return the trigger."""
        return cls()

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire at once behind the watermark, else at the end of the window."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Merge windows."""
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Wait for the end of the merged window, unless it has passed."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Delete the timer of the window's end."""
        ctx.delete_event_time_timer(window.max_timestamp())
