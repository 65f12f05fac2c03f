"""The trigger that counts rows."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add
from typing import Any

from tidegate.windows.state.descriptors import ReducingStateDescriptor
from tidegate.windows.triggers.contract import OnMergeContext, QuietTrigger, TriggerContext, TriggerResult
from tidegate.windows.window import Window, whole_number

COUNT = ReducingStateDescriptor("count", add)


class CountTrigger(QuietTrigger):
    """Fires when ``max_count`` rows arrived since it fired last."""

    event_time = False
    processing_time = False
    reads_rows = False

    def __init__(self, max_count: int) -> None:
        self.max_count = max_count

    @classmethod
    def of(cls, max_count: int) -> CountTrigger:
        """Return a trigger that fires at every ``max_count`` rows.

        Raises OptionError if ``max_count`` is no whole number, or is less than 1.
        """
        return cls(whole_number("max_count", max_count, 1, f"of {cls.__name__}"))

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire when enough rows have arrived."""
        count = ctx.get_partitioned_state(COUNT)
        count.add(1)
        if count.get() < self.max_count:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Merge windows."""
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Add the counts; if the sum is large enough, the next row makes the window fire."""
        ctx.merge_partitioned_state(COUNT)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Forget the count."""
        ctx.get_partitioned_state(COUNT).clear()
