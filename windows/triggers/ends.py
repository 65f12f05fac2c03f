"""Triggers of the window's end, in event time or by the clock, and the one that never fires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import Self

from tidegate.windows.contexts import OnMergeContext, TriggerContext
from tidegate.windows.triggers.contract import OneClockTrigger, QuietTrigger, TriggerResult
from tidegate.windows.window import Window


class _WithoutOptions(QuietTrigger):
    @classmethod
    def create(cls) -> Self:
        """Return the trigger."""
        return cls()


class _AtEnd(_WithoutOptions, OneClockTrigger):
    """Waits for the end of the window, and of windows that merge."""

    def can_merge(self) -> bool:
        """Merge windows."""
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Wait for the end of the merged window, unless it has passed."""
        now = ctx.get_current_watermark() if self._by_watermark else ctx.get_current_processing_time()
        if window.max_timestamp() > now:
            self._register_timer(window.max_timestamp(), ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Delete the timer of the window's end."""
        self._delete_timer(window.max_timestamp(), ctx)


class EventTimeTrigger(_AtEnd):
    """Fires when the watermark reaches the end of the window, and for each row after that."""

    stateless = first_row_decides = True
    event_time = _by_watermark = True
    processing_time = False
    reads_rows = False

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


class ProcessingTimeTrigger(_AtEnd):
    """Fires when the processing time reaches the end of the window."""

    stateless = first_row_decides = True
    event_time = _by_watermark = False
    processing_time = True
    reads_rows = False

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Wait for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE


class EndOfStreamTrigger(_WithoutOptions):
    """Fires once the watermark is plus infinity, 2**63 - 1."""

    stateless = first_row_decides = True
    frees_rows = True
    event_time = True
    processing_time = False
    reads_rows = False

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Wait for the end."""
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE


class NeverTrigger(_WithoutOptions):
    """Never fires."""

    stateless = first_row_decides = True
    event_time = False
    processing_time = False
    reads_rows = False

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE
