"""The trigger that compares rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.windows.callables import check_delta
from tidegate.windows.state.descriptors import ValueStateDescriptor
from tidegate.windows.triggers.contract import QuietTrigger, TriggerContext, TriggerResult
from tidegate.windows.window import Window

LAST = ValueStateDescriptor("last-element")


class DeltaTrigger(QuietTrigger):
    """Fires when a row is far from the row at which it fired last."""

    event_time = False
    processing_time = False

    def __init__(
        self, threshold: float, delta_function: Callable[[Mapping[str, Any], Mapping[str, Any]], float]
    ) -> None:
        self.threshold, self.delta_function = threshold, delta_function

    @classmethod
    def of(
        cls, threshold: float, delta_function: Callable[[Mapping[str, Any], Mapping[str, Any]], float]
    ) -> DeltaTrigger:
        """Return a trigger that fires when ``delta_function(last, row)`` is greater than the threshold.

        last: the row at which it fired last, or the first row of the window.
        Raises OptionError if the threshold is no number and no timedelta, or the function does not take two rows.
        """
        check_delta(threshold, delta_function, cls.__name__)
        return cls(threshold, delta_function)

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire when the row is far enough."""
        last = ctx.get_partitioned_state(LAST)
        if last.value() is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if not self.delta_function(last.value(), element) > self.threshold:
            return TriggerResult.CONTINUE
        last.update(element)
        return TriggerResult.FIRE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Forget the row."""
        ctx.get_partitioned_state(LAST).clear()
