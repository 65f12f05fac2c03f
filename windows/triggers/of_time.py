"""Triggers of time: of the end of the window or of every interval, by watermark or clock, and one that never fires."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from typing_extensions import Self

from tidegate.windows.contexts import OnMergeContext, TriggerContext
from tidegate.windows.state.descriptors import ReducingStateDescriptor
from tidegate.windows.triggers.contract import OneClockTrigger, QuietTrigger, TriggerResult
from tidegate.windows.window import MAX_TIME, GlobalWindow, Window, duration_ms, truncated


class _WithoutOptions(QuietTrigger):
    @classmethod
    def create(cls) -> Self:
        """Return the trigger."""
        return cls()


class _AwaitsEnd(_WithoutOptions, OneClockTrigger):
    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Wait for the end of the window."""
        self._register_timer(window.max_timestamp(), ctx)
        return TriggerResult.CONTINUE


class _AtWatermark(_AwaitsEnd):
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE


class _AtEnd(_AwaitsEnd):
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


class EventTimeTrigger(_AtWatermark, _AtEnd):
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
        return super().on_element(element, timestamp, window, ctx)


class ProcessingTimeTrigger(_AtEnd):
    """Fires when the processing time reaches the end of the window."""

    stateless = first_row_decides = True
    event_time = _by_watermark = False
    processing_time = True
    reads_rows = False

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE


class EndOfStreamTrigger(_AtWatermark):
    """Fires once the watermark is plus infinity, 2**63 - 1."""

    stateless = first_row_decides = frees_rows = True
    event_time = _by_watermark = True
    processing_time = False
    reads_rows = False


class NeverTrigger(_WithoutOptions):
    """Never fires."""

    stateless = first_row_decides = True
    event_time = processing_time = False
    reads_rows = False

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Go on."""
        return TriggerResult.CONTINUE


FIRE_TIME = ReducingStateDescriptor("fire-time", min)


class _Continuous(OneClockTrigger):
    """Fires at multiples of an interval, in milliseconds, and at the end of the window."""

    def __init__(self, interval: int) -> None:
        self.interval = interval

    @classmethod
    def of(cls, interval: timedelta) -> Self:
        """Return a trigger that fires at every multiple of an interval since 1970 UTC.

        Raises OptionError if the interval is not positive.
        """
        return cls(duration_ms("interval", interval, 1, f"of {cls.__name__}"))

    def can_merge(self) -> bool:
        """Merge windows."""
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Wait for the earliest time that one of the windows waited for."""
        ctx.merge_partitioned_state(FIRE_TIME)
        waiting = ctx.get_partitioned_state(FIRE_TIME).get()
        if waiting is not None:
            self._register_timer(waiting, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Stop waiting."""
        waiting = ctx.get_partitioned_state(FIRE_TIME)
        if waiting.get() is not None:
            self._delete_timer(waiting.get(), ctx)
            waiting.clear()

    def _begin(self, time: int, window: Window, ctx: TriggerContext) -> None:
        """Wait for the next multiple after a time, unless the window waits already."""
        if ctx.get_partitioned_state(FIRE_TIME).get() is None:
            self._wait(truncated(time, self.interval), window, ctx)

    def _at_timer(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        waiting = ctx.get_partitioned_state(FIRE_TIME)
        if waiting.get() != time:
            return TriggerResult.CONTINUE
        waiting.clear()
        self._wait(time, window, ctx)
        return TriggerResult.FIRE

    def _wait(self, time: int, window: Window, ctx: TriggerContext) -> None:
        following = self._next_after(time, window, ctx)
        ctx.get_partitioned_state(FIRE_TIME).add(following)
        self._register_timer(following, ctx)

    def _next_after(self, time: int, window: Window, ctx: TriggerContext) -> int:
        """Return the next time to fire: an interval later, or the end of the window if that is earlier."""
        del ctx
        return min(time + self.interval, window.max_timestamp())


class ContinuousEventTimeTrigger(_Continuous):
    """Fires whenever the watermark passes a multiple of the interval, at the window's end, and for late rows."""

    first_row_decides = True
    event_time = _by_watermark = True
    processing_time = False
    reads_rows = False

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire at once behind the watermark, else at the next multiple after the first row."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the awaited multiple, and at the end of the window."""
        return self._at_timer(time, window, ctx)

    def _next_after(self, time: int, window: Window, ctx: TriggerContext) -> int:
        # In Flink the global window fires at all multiples up to the end of time, which never ends.
        at_the_end = isinstance(window, GlobalWindow) and ctx.get_current_watermark() == MAX_TIME
        return MAX_TIME if at_the_end else super()._next_after(time, window, ctx)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires whenever the clock passes a multiple of the interval."""

    first_row_decides = True
    event_time = _by_watermark = False
    processing_time = True
    reads_rows = False

    def on_element(
        self, element: Mapping[str, Any], timestamp: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Wait for the next multiple after the first row."""
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the multiple that it waits for, and at the end of the window."""
        return self._at_timer(time, window, ctx)
