"""Triggers around another one: one makes it purge, one adds a time-out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from operator import attrgetter
from typing import Any

from tidegate.errors import OptionError
from tidegate.windows.contexts import OnMergeContext, TriggerContext
from tidegate.windows.state.descriptors import ValueStateDescriptor
from tidegate.windows.triggers.contract import Trigger, TriggerResult
from tidegate.windows.window import Window, duration_ms

TIMEOUT = ValueStateDescriptor("timeout")


def _of_nested(name: str) -> Any:
    """Return an attribute that a trigger has from its ``nested`` trigger.

    It belongs to the class, so that subclasses have what holds of them instead if the attribute is not inherited.
    """
    return cached_property(attrgetter(f"nested.{name}"))


def _checked(nested: Any, around: type[Trigger]) -> Trigger:
    if not isinstance(nested, Trigger):
        raise OptionError(f"{around.__name__} takes a trigger, such as CountTrigger.of(3), not {nested!r}.")
    return nested


class PurgingTrigger(Trigger):
    """Decides as another trigger does, and purges the window whenever that trigger fires."""

    stateless: bool = _of_nested("stateless")
    first_row_decides: bool = _of_nested("first_row_decides")
    frees_rows = True
    event_time: bool | None = _of_nested("event_time")
    processing_time: bool | None = _of_nested("processing_time")
    reads_rows: bool = _of_nested("reads_rows")

    def __init__(self, nested: Trigger) -> None:
        self.nested = nested

    @classmethod
    def of(cls, nested: Trigger) -> PurgingTrigger:
        """Return a trigger that purges whenever another one fires.

        Raises OptionError if ``nested`` is not a trigger.
        """
        return cls(_checked(nested, cls))

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


class ProcessingTimeoutTrigger(Trigger):
    """Fires when another trigger does, or when the time-out has passed since the first row.

    As in Flink, it fires at every timer of the window, even at that of the window's cleanup.
    """

    frees_rows: bool = _of_nested("frees_rows")
    event_time: bool | None = _of_nested("event_time")
    processing_time = True
    reads_rows: bool = _of_nested("reads_rows")

    def __init__(
        self, nested: Trigger, timeout: int, *, reset_timer_on_new_record: bool, should_clear_on_timeout: bool
    ) -> None:
        self.nested, self.timeout = nested, timeout
        self.reset_timer_on_new_record = reset_timer_on_new_record
        self.should_clear_on_timeout = should_clear_on_timeout

    @classmethod
    def of(
        cls,
        nested: Trigger,
        timeout: timedelta,
        reset_timer_on_new_record: bool = False,  # noqa: FBT002 - as in Flink's API
        should_clear_on_timeout: bool = True,  # noqa: FBT002
    ) -> ProcessingTimeoutTrigger:
        """Return a trigger with a time-out in processing time.

        reset_timer_on_new_record: count the time-out from the last row, not from the first.
        should_clear_on_timeout: clear the other trigger's state when a timer fires.
        Raises OptionError if the time-out is negative, or if ``nested`` is not a trigger.
        """
        return cls(
            _checked(nested, cls),
            duration_ms("timeout", timeout, 0, f"of {cls.__name__}"),
            reset_timer_on_new_record=reset_timer_on_new_record,
            should_clear_on_timeout=should_clear_on_timeout,
        )

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Decide as the other trigger does, and start the time-out unless that trigger fires."""
        result = self.nested.on_element(element, timestamp, window, ctx)
        if result.fires:
            self.clear(window, ctx)
            return result
        running = ctx.get_partitioned_state(TIMEOUT)
        if running.value() is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(running.value())
            running.clear()
        if running.value() is None:
            running.update(ctx.get_current_processing_time() + self.timeout)
            ctx.register_processing_time_timer(running.value())
        return result

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire."""
        return self._timed_out(self.nested.on_event_time(time, window, ctx), window, ctx)

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire."""
        return self._timed_out(self.nested.on_processing_time(time, window, ctx), window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Stop the time-out, and clear the other trigger's state."""
        running = ctx.get_partitioned_state(TIMEOUT)
        if running.value() is not None:
            ctx.delete_processing_time_timer(running.value())
            running.clear()
        self.nested.clear(window, ctx)

    def _timed_out(self, result: TriggerResult, window: Window, ctx: TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.purges else TriggerResult.FIRE
