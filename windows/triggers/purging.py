"""The trigger that makes another one purge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import OptionError
from tidegate.windows.triggers.contract import OnMergeContext, Trigger, TriggerContext, TriggerResult, of_nested
from tidegate.windows.window import Window


class PurgingTrigger(Trigger):
    """Decides as another trigger does, and purges the window whenever that trigger fires."""

    stateless: bool = of_nested("stateless")
    first_row_decides: bool = of_nested("first_row_decides")
    frees_rows = True
    event_time: bool | None = of_nested("event_time")
    processing_time: bool | None = of_nested("processing_time")
    reads_rows: bool = of_nested("reads_rows")

    def __init__(self, nested: Trigger) -> None:
        self.nested = nested

    @classmethod
    def of(cls, nested: Trigger) -> PurgingTrigger:
        """Return a trigger that purges whenever another one fires.

        Raises OptionError if ``nested`` is no trigger.
        """
        if not isinstance(nested, Trigger):
            raise OptionError(f"{cls.__name__} takes a trigger, such as CountTrigger.of(3), not {nested!r}.")
        return cls(nested)

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Decide as the other trigger does."""
        return _purging(self.nested.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide as the other trigger does."""
        return _purging(self.nested.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide as the other trigger does."""
        return _purging(self.nested.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Merge windows if the other trigger does."""
        return self.nested.can_merge()

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Merge as the other trigger does."""
        self.nested.on_merge(window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Clear as the other trigger does."""
        self.nested.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.fires else result
