"""Triggers of the global window: one never fires, one fires at the end of a bounded stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.windows.rows import Times
from tidegate.windows.triggers.contract import Trigger, TriggerContext, TriggerResult
from tidegate.windows.window import Window


class NeverTrigger(Trigger):
    """Never fires."""

    stateless = True
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

    def on_elements(self, timestamps: Times, window: Window, ctx: TriggerContext) -> bool:
        """Take all rows."""
        return True

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Do nothing: there is no state."""


class EndOfStreamTrigger(Trigger):
    """Fires once the watermark is plus infinity, 2**63 - 1."""

    stateless = True
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

    def on_elements(self, timestamps: Times, window: Window, ctx: TriggerContext) -> bool:
        """Take all rows."""
        ctx.register_event_time_timer(window.max_timestamp())
        return True

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Do nothing: there is no state."""
