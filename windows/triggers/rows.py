"""Triggers that look at rows: one counts them, one compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add
from typing import Any

from tidegate.windows.callables import check_delta
from tidegate.windows.contexts import OnMergeContext, TriggerContext
from tidegate.windows.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from tidegate.windows.triggers.contract import QuietTrigger, TriggerResult
from tidegate.windows.window import Window, whole_number

COUNT = ReducingStateDescriptor("count", add)
LAST = ValueStateDescriptor("last-element")


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

        Raises OptionError if ``max_count`` is not a whole number, or is less than 1.
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
        Raises OptionError if the threshold is neither a number nor a timedelta, or the function does not take two rows.
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
