"""What assigners, triggers, evictors and window functions see of one key.  All times are in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tidegate.errors import OptionError
from tidegate.windows.state.descriptors import KeyedStateStore, MergingStateDescriptor, StateDescriptor
from tidegate.windows.state.key_state import KeyState
from tidegate.windows.window import Window


class KeyClock:
    """The times of one key."""

    def __init__(self, state: KeyState, processing_time: int) -> None:
        self.state, self.processing_time = state, processing_time

    def get_current_watermark(self) -> int:
        """Return the watermark, -2**63 before the first."""
        return self.state.watermark

    def get_current_processing_time(self) -> int:
        """Return the processing time, -2**63 before the first."""
        return self.processing_time


WindowAssignerContext: TypeAlias = KeyClock
EvictorContext: TypeAlias = KeyClock


class TriggerContext:
    """The clock, the timers and the state of one window of one key."""

    def __init__(self, clock: KeyClock, window: Window, values: dict[str, Any]) -> None:
        self._clock, self._state = clock, clock.state
        self._window, self._values = window, values

    def get_current_watermark(self) -> int:
        """Return the watermark, -2**63 before the first."""
        return self._state.watermark

    def get_current_processing_time(self) -> int:
        """Return the processing time, -2**63 before the first."""
        return self._clock.processing_time

    def register_event_time_timer(self, time: int) -> None:
        """Have ``on_event_time`` called once the watermark reaches ``time``."""
        self._state.event_timers.register(time, self._window)

    def register_processing_time_timer(self, time: int) -> None:
        """Have ``on_processing_time`` called once the processing time reaches ``time``."""
        self._state.processing_timers.register(time, self._window)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete a timer of this window, if it is there."""
        self._state.event_timers.delete(time, self._window)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a timer of this window, if it is there."""
        self._state.processing_timers.delete(time, self._window)

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        """Return the trigger's state for this window."""
        return descriptor.bind(self._values)


class OnMergeContext(TriggerContext):
    """The context of a window into which other windows were just merged."""

    def __init__(self, clock: KeyClock, window: Window, values: dict[str, Any], merged: list[dict[str, Any]]) -> None:
        super().__init__(clock, window, values)
        self._merged = merged

    def merge_partitioned_state(self, descriptor: MergingStateDescriptor) -> None:
        """Merge the trigger's state of the other windows into that of this window."""
        name = descriptor.name
        held = [values.pop(name) for values in (self._values, *self._merged) if values.get(name) is not None]
        if held:
            self._values[name] = descriptor.merge(held)


class ProcessWindowContext:
    """The window, the clock and the states that a process function sees.

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
        """Return the watermark, -2**63 before the first."""
        return self._clock.state.watermark

    def current_processing_time(self) -> int:
        """Return the processing time, -2**63 before the first."""
        return self._clock.processing_time

    def window_state(self) -> KeyedStateStore:
        """Return the function's state for this window and key.  It goes with the window.

        Raises OptionError for windows that merge, as Flink does.
        """
        if self._values is None:
            raise OptionError("State of a window cannot be kept where windows merge, as in Flink: use global_state().")
        return KeyedStateStore(self._values)

    def global_state(self) -> KeyedStateStore:
        """Return the function's state for this key, over all windows."""
        return KeyedStateStore(self._clock.state.function)

    def output(self, tag: str, value: Mapping[str, Any]) -> None:
        """Give a row to the side output of this name: a mapping of column names to values."""
        self._emit(tag, value)
