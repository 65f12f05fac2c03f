"""One key of one batch: Flink's rules for rows, timers, firing, merging and cleaning up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import ContractError, FunctionError, TidegateError
from tidegate.windows.contexts import Clock, FunctionContext, PaneContext
from tidegate.windows.evictors import TimestampedValue
from tidegate.windows.merging import joined
from tidegate.windows.rows import Rows, Times
from tidegate.windows.state.key_state import ElementList, KeyState, Pane
from tidegate.windows.state.store import KeyStore
from tidegate.windows.triggers.contract import TriggerResult
from tidegate.windows.window import MAX_TIME, TimeWindow, Window, saturated

if TYPE_CHECKING:
    from tidegate.windows.assigners.contract import Assigned
    from tidegate.windows.operator import WindowOperator

__all__ = ["Fired", "KeyRun"]


class Fired(NamedTuple):
    """One result of a window.

    timer: the time of the timer that made the window fire, in ms; None: a row did.
    """

    window: Window
    value: Any
    timer: int | None


class KeyRun:
    """One key of one batch.

    Advance the times to those of the batch, then hand over its rows, read ``results`` and ``late``, and close.
    That is Flink's order, because all rows of a batch lie behind the watermark of the batch before.

    Attributes:
    results: what fired, in order.  late: rows that no window took, because they are behind the watermark.

    """

    def __init__(self, operator: WindowOperator, key: Any, store: KeyStore, processing_time: int) -> None:
        self.operator, self.key = operator, key
        self.results: list[Fired] = []
        self.late: list[Mapping[str, Any]] = []
        self._state = KeyState(store)
        self._clock = Clock(self._state, processing_time)
        self._folding = operator.folding
        self._window: Window | None = None

    def next_event_timer(self) -> int | None:
        """Return the time of the key's first event-time timer in ms; None: there is none."""
        return self._state.event_timers.next_time()

    def next_processing_timer(self) -> int | None:
        """Return the time of the key's first processing-time timer in ms; None: there is none."""
        return self._state.processing_timers.next_time()

    def event_timers(self) -> list[tuple[int, int | None, int | None]]:
        """Return the key's event-time timers: time, start and end of the window."""
        return [(time, window.start, window.end) for time, window in self._state.event_timers.entries]

    def processing_timers(self) -> list[tuple[int, int | None, int | None]]:
        """Return the key's processing-time timers: time, start and end of the window."""
        return [(time, window.start, window.end) for time, window in self._state.processing_timers.entries]

    def close(self) -> None:
        """Store what has changed."""
        self._state.flush()

    def advance_watermark(self, time: int) -> None:
        """Fire the timers up to a watermark in ms; one that is not greater than before changes nothing."""
        if time <= self._state.watermark:
            return
        self._state.watermark = time
        while (timer := self._state.event_timers.pop_due(time)) is not None:
            self._fire_timer(*timer, in_event_time=True)

    def advance_processing_time(self, time: int) -> None:
        """Fire the timers up to a processing time in ms; it does not go back."""
        self._clock.processing_time = max(time, self._clock.processing_time)
        while (timer := self._state.processing_timers.pop_due(time)) is not None:
            self._fire_timer(*timer, in_event_time=False)

    def process_elements(
        self,
        rows: pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]],
        timestamps: npt.NDArray[np.int64] | Sequence[int],
    ) -> None:
        """Take rows in order of arrival, all at once where that makes no difference.

        timestamps: their event times in ms.
        """
        if not len(timestamps):
            return
        times = np.asarray(timestamps, np.int64)
        held = Rows(rows)
        try:
            assigned = self.operator.assigner.assign_batch(times, self._clock)
            if assigned is None:
                self._take_each(held, times)
            elif not self.operator.assigner.merges:
                self._take_windows(held, times, assigned)
            elif self._merge_at_once(held, times):
                for window, places in assigned:
                    self._add_all(self._merged(window), held.take(places), times if places is None else times[places])
            else:
                self._take_each(held, times)
        except TidegateError:
            raise
        except Exception as error:
            raise self._blamed(error) from error

    def process_element(self, row: Mapping[str, Any], timestamp: int) -> None:
        """Take one row.

        timestamp: its event time in ms.
        """
        try:
            self._take(row, timestamp)
        except TidegateError:
            raise
        except Exception as error:
            raise self._blamed(error) from error

    def _take(self, row: Mapping[str, Any], timestamp: int) -> None:
        self._window, taken = None, False
        for assigned in self.operator.assigner.assign_windows(row, timestamp, self._clock):
            window = self._merged(assigned) if self.operator.assigner.merges else assigned
            if self._is_late(window):
                self._state.merged.pop(window, None)
            else:
                taken = True
                self._add(window, row, timestamp)
        if not taken and self._is_behind(timestamp):
            self.late.append(row)

    def _take_each(self, rows: Rows, times: Times) -> None:
        for row, timestamp in zip(rows, times.tolist(), strict=True):
            self._take(row, timestamp)

    def _take_windows(self, rows: Rows, times: Times, assigned: list[Assigned]) -> None:
        """Take rows by window, and those one by one that may make their window fire."""
        taken = np.zeros(len(times), bool)
        one_by_one: list[tuple[int, Window]] = []
        for window, places in assigned:
            if not self._is_late(window):
                taken[slice(None) if places is None else places] = True
                chosen = times if places is None else times[places]
                if not self._add_all(window, rows.take(places), chosen):
                    one_by_one += [(place, window) for place in (range(len(times)) if places is None else places)]
        if one_by_one:
            chosen = np.unique([place for place, _ in one_by_one])
            listed = dict(zip(chosen.tolist(), rows.take(chosen), strict=True))
            for place, window in sorted(one_by_one, key=lambda each: each[0]):
                self._add(window, listed[place], int(times[place]))
        if not taken.all():
            late = [place for place in np.flatnonzero(~taken) if self._is_behind(int(times[place]))]
            self.late += rows.take(np.array(late, np.intp))

    def _merge_at_once(self, rows: Rows, times: Times) -> bool:
        """Return whether rows of windows that merge can be taken by window.

        None may be late, none may fire, and rows that are kept must stay in the order that merging gives.
        """
        if self._folding is None or not self.operator.trigger.stateless:
            return False
        earliest = int(times.argmin())
        (row,) = rows.take(np.array([earliest], np.intp))
        first = self.operator.assigner.assign_windows(row, int(times[earliest]), self._clock)
        return all(window.max_timestamp() > self._state.watermark for window in first)

    def _add(self, window: Window, row: Mapping[str, Any], timestamp: int) -> None:
        self._window = window
        pane = self._pane(window)
        if self._folding is not None:
            pane.contents = self._folding.add(pane.contents, row)
        else:
            self._keep(pane, [(timestamp, row)])
        context = self._context(window, pane)
        self._decide(window, pane, self.operator.trigger.on_element(row, timestamp, window, context), None)
        self._register_cleanup(window, context)

    def _add_all(self, window: Window, rows: Rows, times: Times) -> bool:
        """Add rows to one window at once, if the trigger takes them so; else change nothing."""
        self._window = window
        pane = self._pane(window)
        context = self._context(window, pane)
        if not self.operator.trigger.on_elements(times, window, context):
            return False
        if self._folding is not None:
            pane.contents = self._folding.add_all(pane.contents, rows)
        else:
            self._keep(pane, list(zip(times.tolist(), rows, strict=True)))
        self._register_cleanup(window, context)
        return True

    def _fire_timer(self, time: int, window: Window, *, in_event_time: bool) -> None:
        operator = self.operator
        if operator.assigner.merges and window not in self._state.merged:
            return  # the window became another one, and its timer was left behind
        self._window = window
        pane = self._pane(window)
        decide = operator.trigger.on_event_time if in_event_time else operator.trigger.on_processing_time
        try:
            self._decide(window, pane, decide(time, window, self._context(window, pane)), time)
            if in_event_time == operator.in_event_time and time == operator.cleanup_time(window):
                self._clear(window, pane)
        except TidegateError:
            raise
        except Exception as error:
            raise self._blamed(error) from error

    def _decide(self, window: Window, pane: Pane, result: TriggerResult, timer: int | None) -> None:
        if result.fires and pane.contents is not None:
            context = self._function_context(window, pane)
            values = self._results(window, pane, context)
            self.results += [Fired(window, value, timer) for value in values]
        if result.purges:
            self._state.clear(pane)

    def _results(self, window: Window, pane: Pane, context: FunctionContext) -> list[Any]:
        function, evictor = self.operator.function, self.operator.evictor
        if self._folding is not None:
            return list(self._folding.fire_folded(self.key, context, pane.contents))
        held = self._state.elements(pane.contents)
        if evictor is None:
            return list(function.fire(self.key, context, [row for _, row in held]))
        rows = evictor.evict_before([TimestampedValue(row, time) for time, row in held], len(held), window, self._clock)
        values = list(function.fire(self.key, context, [row.value for row in rows]))
        rows = evictor.evict_after(rows, len(rows), window, self._clock)
        if len(rows) < len(held):
            self._state.clear(pane)
            if rows:
                self._keep(pane, [(row.timestamp, row.value) for row in rows])
        return values

    def _clear(self, window: Window, pane: Pane) -> None:
        self._state.clear(pane)
        self.operator.trigger.clear(window, self._context(window, pane))
        self.operator.function.clear(self._function_context(window, pane))
        pane.trigger, pane.function = {}, {}
        self._state.merged.pop(window, None)

    def _merged(self, new: Window) -> TimeWindow:
        """Return the window that a new one becomes among those of the key, after merging them."""
        merged, trigger = self._state.merged, self.operator.trigger
        if not isinstance(new, TimeWindow):
            raise ContractError(
                f"{type(self.operator.assigner).__name__} merges, so it must assign TimeWindows: {new}."
            )
        window, parts = joined(merged, new)
        self._window = window
        if not parts:
            merged[window] = window
        elif parts != [window]:
            panes = [self._state.pane(merged[part]) for part in parts]
            values: dict[str, Any] = {}
            trigger.on_merge(window, PaneContext(self._clock, window, values, [pane.trigger for pane in panes]))
            for part, pane in zip(parts, panes, strict=True):
                context = self._context(part, pane)
                trigger.clear(part, context)
                self._delete_cleanup(part, context)
                pane.trigger = {}
            self._join(panes)
            panes[0].trigger = values
            merged[window], *_ = [merged.pop(part) for part in parts]
        return window

    def _join(self, panes: list[Pane]) -> None:
        """Move the contents of panes into the first of them."""
        first, *others = panes
        for other in others:
            if first.contents is None or other.contents is None:
                first.contents = other.contents if first.contents is None else first.contents
            elif self._folding is not None:
                first.contents = self._folding.merge(first.contents, other.contents)
            else:
                first.contents.chunks += other.contents.chunks
            other.contents = None

    def _keep(self, pane: Pane, rows: list[tuple[int, Mapping[str, Any]]]) -> None:
        if pane.contents is None:
            pane.contents = ElementList()
        pane.contents.add(rows)

    def _pane(self, window: Window) -> Pane:
        return self._state.pane(self._state.merged[window] if self.operator.assigner.merges else window)

    def _context(self, window: Window, pane: Pane) -> PaneContext:
        return PaneContext(self._clock, window, pane.trigger, [])

    def _function_context(self, window: Window, pane: Pane) -> FunctionContext:
        return FunctionContext(self._clock, window, None if self.operator.assigner.merges else pane.function)

    def _is_late(self, window: Window) -> bool:
        return self.operator.in_event_time and self.operator.cleanup_time(window) <= self._state.watermark

    def _is_behind(self, timestamp: int) -> bool:
        reach = saturated(timestamp + self.operator.allowed_lateness)
        return self.operator.in_event_time and reach <= self._state.watermark

    def _register_cleanup(self, window: Window, context: PaneContext) -> None:
        time = self.operator.cleanup_time(window)
        if time == MAX_TIME:
            return
        if self.operator.in_event_time:
            context.register_event_time_timer(time)
        else:
            context.register_processing_time_timer(time)

    def _delete_cleanup(self, window: Window, context: PaneContext) -> None:
        if self.operator.in_event_time:
            context.delete_event_time_timer(self.operator.cleanup_time(window))
        else:
            context.delete_processing_time_timer(self.operator.cleanup_time(window))

    def _blamed(self, error: Exception) -> FunctionError:
        where = f"key {self.key!r}" + ("" if self._window is None else f" and window {self._window}")
        return FunctionError(f"A function of the windows raised {type(error).__name__}: {error} (for {where}).")
