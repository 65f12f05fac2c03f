"""The windows of one key: Flink's rules for rows, timers, firing, merging and cleaning up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.errors import ContractError
from tidegate.windows.assigners.contract import MergingWindowAssigner
from tidegate.windows.contexts import KeyClock, OnMergeContext, ProcessWindowContext, TriggerContext
from tidegate.windows.evictors import TimestampedValue
from tidegate.windows.rows import Rows, Times
from tidegate.windows.state.key_state import ElementList, PaneState
from tidegate.windows.triggers.contract import TriggerResult
from tidegate.windows.window import MAX_TIME, TimeWindow, Window, saturated

if TYPE_CHECKING:
    from tidegate.windows.operator import WindowOperator


class Fired(NamedTuple):
    """One result of a window.

    timer: the time in ms of the timer that made the window fire; None: a row did.
    output: the side output to which the process function gave the value; None: it is a result.
    """

    window: Window
    value: Any
    timer: int | None
    output: str | None = None


class OpenPane(NamedTuple):
    """A window that is open, with the value folded from its rows; None: it was purged.

    trigger: the trigger's state.
    timers: the times in ms of its timers in event time, and in processing time, with or without its cleanup.
    """

    window: Window
    contents: Any
    trigger: dict[str, Any]
    timers: tuple[Sequence[int], Sequence[int]] = ((), ())


class KeyWindows:
    """The windows of one key, by the rules of Flink's WindowOperator.

    Attributes:
    results: the results that fired, in order.  late: rows behind the watermark, which no window took.
    current: the window that was handled last, for errors; None: a row has no window yet.

    """

    def __init__(self, operator: WindowOperator, key: Any, clock: KeyClock) -> None:
        self.operator, self.key, self.folding = operator, key, operator.folding
        self.results: list[Fired] = []
        self.late: list[Mapping[str, Any]] = []
        self.current: Window | None = None
        self._clock, self._state = clock, clock.state
        self._cleanups = clock.state.event_timers if operator.in_event_time else clock.state.processing_timers
        self._timer: int | None = None  # that makes a window fire or go now

    def take(self, row: Mapping[str, Any], timestamp: int) -> None:
        """Add a row to its windows, or to the late rows."""
        self.current, taken = None, False
        for assigned in self.operator.assigner.assign_windows(row, timestamp, self._clock):
            window = self.merged(assigned) if self.operator.assigner.merges else assigned
            if self.is_late(window):
                self._state.merged.pop(window, None)
            else:
                taken = True
                self.add(window, row, timestamp)
        if not taken and self.is_behind(timestamp):
            self.late.append(row)

    def add(self, window: Window, row: Mapping[str, Any], timestamp: int) -> None:
        """Add a row to a window that is not late."""
        self.current = window
        pane = self._pane(window)
        if self.folding is not None:
            pane.contents = self.folding.add(pane.contents, row)
        else:
            self._keep(pane, [(timestamp, row)])
        context = self._context(window, pane)
        self._decide(window, pane, self.operator.trigger.on_element(row, timestamp, window, context))
        self._register_cleanup(window)

    def add_all(self, window: Window, rows: Rows, times: Times) -> bool:
        """Add rows to one window at once if the trigger takes them so; otherwise change nothing."""
        trigger = self.operator.trigger
        if not trigger.first_row_decides:
            return False
        self.current = window
        pane = self._pane(window)
        context = self._context(window, pane)
        if trigger.on_element({}, int(times[0]), window, context) is not TriggerResult.CONTINUE:
            return False
        if self.folding is not None:
            pane.contents = self.folding.add_all(pane.contents, rows)
        else:
            self._keep(pane, list(zip(times.tolist(), rows, strict=True)))
        self._register_cleanup(window)
        return True

    def open(self, held: OpenPane) -> None:
        """Add a window that was open before."""
        window = held.window
        if isinstance(window, TimeWindow) and self.operator.assigner.merges:
            self._state.merged[window] = window
        pane = self._pane(window)
        pane.contents, pane.trigger = held.contents, held.trigger
        for timers, times in zip((self._state.event_timers, self._state.processing_timers), held.timers, strict=True):
            for time in times:
                timers.register(time, window)
        self._register_cleanup(window)

    def fire_timer(self, time: int, window: Window, *, in_event_time: bool) -> None:
        """Let the trigger decide at a timer that is due, and clean the window up if its cleanup is due."""
        operator = self.operator
        if operator.assigner.merges and window not in self._state.merged:
            return  # the window merged into another one and left its timer behind
        self.current, self._timer = window, time
        pane = self._pane(window)
        decide = operator.trigger.on_event_time if in_event_time else operator.trigger.on_processing_time
        self._decide(window, pane, decide(time, window, self._context(window, pane)))
        if in_event_time == operator.in_event_time and time == operator.cleanup_time(window):
            self._clear(window, pane)
        self._timer = None

    def _decide(self, window: Window, pane: PaneState, result: TriggerResult) -> None:
        if result.fires and pane.contents is not None:
            context = self._function_context(window, pane)
            values = self._results(window, pane, context)
            self.results += [Fired(window, value, self._timer) for value in values]
        if result.purges:
            self._state.clear(pane)

    def _results(self, window: Window, pane: PaneState, context: ProcessWindowContext) -> list[Any]:
        function, evictor = self.operator.function, self.operator.evictor
        if self.folding is not None:
            return list(self.folding.fire_folded(self.key, context, pane.contents))
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

    def _clear(self, window: Window, pane: PaneState) -> None:
        self._state.clear(pane)
        self.operator.trigger.clear(window, self._context(window, pane))
        self.operator.function.clear(self._function_context(window, pane))
        pane.trigger, pane.function = {}, {}
        self._state.merged.pop(window, None)

    def merged(self, new: Window) -> TimeWindow:
        """Return the window that a new one becomes among those of the key, after merging them."""
        assigner, merged = self.operator.assigner, self._state.merged
        if not isinstance(new, TimeWindow) or not isinstance(assigner, MergingWindowAssigner):
            raise ContractError(
                f"{type(assigner).__name__} merges, so it must be a MergingWindowAssigner and assign TimeWindows."
            )
        window = self.current = new
        open_windows = [window for window in merged if isinstance(window, TimeWindow)]
        for merge in merges(assigner, open_windows, new):
            if merge.takes_new:
                window = self.current = merge.result
            if merge.parts and merge.parts != [merge.result]:
                self._merge(merge)
        # Flink stores an open window anew here if it equals the new one, and so may lose its rows.
        merged.setdefault(window, window)
        return window

    def _merge(self, merge: Merge) -> None:
        """Make one window of several, under which it keeps their panes and timers."""
        merged, trigger, (window, parts, _) = self._state.merged, self.operator.trigger, merge
        if self.is_late(window):
            raise ContractError(
                f"{type(self.operator.assigner).__name__} merges windows into {window}, which the watermark has passed."
            )
        panes = [self._state.pane(merged[part]) for part in parts]
        values: dict[str, Any] = {}
        context = OnMergeContext(self._clock, window, values, [pane.trigger for pane in panes])
        trigger.on_merge(window, context)
        self._register_cleanup(window)  # the row is not added to it if the new window does not hold it
        for part, pane in zip(parts, panes, strict=True):
            if part != window:
                trigger.clear(part, self._context(part, pane))
                self._cleanups.delete(self.operator.cleanup_time(part), part)
            pane.trigger = {}
        self._join(panes)
        panes[0].trigger = values
        merged[window], *_ = [merged.pop(part) for part in parts]

    def _join(self, panes: list[PaneState]) -> None:
        """Move the contents of panes into the first of them."""
        first, *others = panes
        for other in others:
            if first.contents is None or other.contents is None:
                first.contents = other.contents if first.contents is None else first.contents
            elif self.folding is not None:
                first.contents = self.folding.merge(first.contents, other.contents)
            else:
                first.contents.chunks += other.contents.chunks
            other.contents = None

    def _keep(self, pane: PaneState, rows: list[tuple[int, Mapping[str, Any]]]) -> None:
        if pane.contents is None:
            pane.contents = ElementList()
        pane.contents.add(rows)

    def _pane(self, window: Window) -> PaneState:
        return self._state.pane(self._state.merged[window] if self.operator.assigner.merges else window)

    def _context(self, window: Window, pane: PaneState) -> TriggerContext:
        return TriggerContext(self._clock, window, pane.trigger)

    def _function_context(self, window: Window, pane: PaneState) -> ProcessWindowContext:
        def emit(tag: str, value: Any) -> None:
            self.results.append(Fired(window, value, self._timer, tag))

        return ProcessWindowContext(self._clock, window, None if self.operator.assigner.merges else pane.function, emit)

    def is_late(self, window: Window) -> bool:
        """Return whether the watermark has reached the window's cleanup; the window then takes no more rows."""
        return self.operator.in_event_time and self.operator.cleanup_time(window) <= self._state.watermark

    def is_behind(self, timestamp: int) -> bool:
        """Return whether a row that no window took is late; a row in a gap between windows need not be."""
        reach = saturated(timestamp + self.operator.allowed_lateness)
        return self.operator.in_event_time and reach <= self._state.watermark

    def _register_cleanup(self, window: Window) -> None:
        time = self.operator.cleanup_time(window)
        if time != MAX_TIME:
            self._cleanups.register(time, window)


class Merge(NamedTuple):
    """Open windows of a key that become one.

    parts: in the order in which their rows are joined; none if only the new window was merged.
    takes_new: whether the new window is part of the result.
    """

    result: TimeWindow
    parts: list[TimeWindow]
    takes_new: bool


def merges(assigner: MergingWindowAssigner, open_windows: Collection[TimeWindow], new: TimeWindow) -> list[Merge]:
    """Return the merges that a new window causes among the open windows of its key.

    Raises ContractError for a merge of other windows, of one window twice, or into an open window not among them.
    """
    asked = _Asked(assigner, {*open_windows, new})
    assigner.merge_windows(sorted(asked.left), asked)
    open_before = {*open_windows}
    return [
        Merge(result, in_order(window for window in merged if window in open_before), new in merged)
        for merged, result in asked.merged
    ]


class _Asked:
    def __init__(self, assigner: MergingWindowAssigner, windows: set[TimeWindow]) -> None:
        self._assigner, self.left = assigner, windows
        self.merged: list[tuple[set[TimeWindow], TimeWindow]] = []

    def merge(self, to_be_merged: Collection[TimeWindow], merge_result: TimeWindow) -> None:
        merged = {*to_be_merged}
        wrong = merged - self.left
        if merge_result not in merged and merge_result in self.left:
            wrong.add(merge_result)
        if wrong or not merged:
            named = ", ".join(map(str, sorted(merged))) or "nothing"
            raise ContractError(
                f"{type(self._assigner).__name__}.merge_windows merges {named} into {merge_result}, but each "
                "window may be merged once, and the result must be new or one of them."
            )
        self.left -= merged
        self.merged.append((merged, merge_result))


def in_order(parts: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return windows in order of time, in which their rows are joined.

    Flink takes them in the order of a Java hash set, which promises no order.
    """
    return sorted(parts)
