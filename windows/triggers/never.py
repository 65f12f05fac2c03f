"""Triggers of the global window: one never fires, one fires at the end of a bounded stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.windows.triggers.contract import QuietTrigger, TriggerContext, TriggerResult
from tidegate.windows.window import Window


class NeverTrigger(QuietTrigger):
    """Never fires."""

    stateless = first_row_decides = True
    event_time = False
    processing_time = False
    reads_rows = False

    @classmethod
    def create(cls) -> NeverTrigger:
        """Return the trigger."""
        return cls()

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE


class EndOfStreamTrigger(QuietTrigger):
    """Fires once the watermark is plus infinity, 2**63 - 1."""

    stateless = first_row_decides = True
    frees_rows = True
    event_time = True
    processing_time = False
    reads_rows = False

    @classmethod
    def create(cls) -> EndOfStreamTrigger:
        """Return the trigger."""
        return cls()

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Wait for the end."""
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE
