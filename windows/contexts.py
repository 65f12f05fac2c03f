"""The views of one key's state for assigners, triggers, evictors and window functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.errors import OptionError
from tidegate.windows.state.descriptors import KeyedStateStore, MergingStateDescriptor, StateDescriptor
from tidegate.windows.state.key_state import KeyState
from tidegate.windows.window import Window


class KeyClock:
    """The times of one key, and all that assigners and evictors see."""

    def __init__(self, state: KeyState, processing_time: int) -> None:
        self.state, self.processing_time = state, processing_time

    def get_current_watermark(self) -> int:
        """Return the watermark."""
        return self.state.watermark

    def get_current_processing_time(self) -> int:
        """Return the processing time."""
        return self.processing_time


class PaneContext:
    """One window as a trigger sees it, with its states there and in the windows that became this one."""

    def __init__(self, clock: KeyClock, window: Window, values: dict[str, Any], merged: list[dict[str, Any]]) -> None:
        self._clock, self._state = clock, clock.state
        self._window, self._values, self._merged = window, values, merged

    def get_current_watermark(self) -> int:
        """Return the watermark."""
        return self._state.watermark

    def get_current_processing_time(self) -> int:
        """Return the processing time."""
        return self._clock.processing_time

    def register_event_time_timer(self, time: int) -> None:
        """Register a timer of this window."""
        self._state.event_timers.register(time, self._window)

    def register_processing_time_timer(self, time: int) -> None:
        """Register a timer of this window."""
        self._state.processing_timers.register(time, self._window)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete a timer of this window."""
        self._state.event_timers.delete(time, self._window)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a timer of this window."""
        self._state.processing_timers.delete(time, self._window)

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        """Return the trigger's state by its descriptor."""
        return descriptor.bind(self._values)

    def merge_partitioned_state(self, descriptor: MergingStateDescriptor) -> None:
        """Merge the descriptor's state of the merged windows into that of this window."""
        name = descriptor.name
        held = [values.pop(name) for values in (self._values, *self._merged) if values.get(name) is not None]
        if held:
            self._values[name] = descriptor.merge(held)


class FunctionContext:
    """One window as a process function sees it.

    values: the function's states in this window; None: the windows merge.
    emit: takes the name of a side output, and a row for it.
    """

    def __init__(
        self, clock: KeyClock, window: Window, values: dict[str, Any] | None, emit: Callable[[str, Any], None]
    ) -> None:
        self._clock, self._window, self._values, self._emit = clock, window, values, emit

    def window(self) -> Window:
        """Return the window."""
        return self._window

    def current_watermark(self) -> int:
        """Return the watermark."""
        return self._clock.state.watermark

    def current_processing_time(self) -> int:
        """Return the processing time."""
        return self._clock.processing_time

    def window_state(self) -> KeyedStateStore:
        """Return the function's states in this window."""
        if self._values is None:
            raise OptionError("State of a window cannot be kept where windows merge, as in Flink: use global_state().")
        return KeyedStateStore(self._values)

    def global_state(self) -> KeyedStateStore:
        """Return the function's states for this key."""
        return KeyedStateStore(self._clock.state.function)

    def output(self, tag: str, value: Any) -> None:
        """Give a row to a side output."""
        self._emit(tag, value)
