"""The state of windows in columns: a table with a row for each key and open window.

The same windows become panes for the rules of one key (``KeyRun``), and rows of the table again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.windows import GlobalWindow, GlobalWindows, TimeWindow, WindowOperator
from tidegate.windows.key_windows import OpenPane
from tidegate.windows.spark.columns.accumulators import Accumulators
from tidegate.windows.spark.columns.firing import OVER, Firing, Ints, Windows, firing_of
from tidegate.windows.spark.keys import Key, keys_of
from tidegate.windows.spark.pages import EVENT, NEVER, PROCESSING
from tidegate.windows.spark.results import Given
from tidegate.windows.triggers.nested import TIMEOUT
from tidegate.windows.window import MAX_TIME, MIN_TIME

START, END = "__start", "__end"
_TRIGGER, _WAITS, _HELD, _TIMEOUT = "__trigger", "__waits", "__holds_rows", "__timeout"


class WindowTable:
    """The table of the windows of an operator, and its columns.

    keys: the columns of the key.  rows: the columns of rows.
    check: raises FunctionError for a result that does not fit its type.

    Attributes:
    clock: the column of the trigger's timers; without any, of the cleanups.
    cleanup_clock: the column of the cleanups; None: windows are never cleaned up.
    clocks: all columns of timers, ``clock`` first.

    """

    def __init__(
        self, operator: WindowOperator, keys: Sequence[str], rows: pa.Schema, check: Callable[[list[Given]], object]
    ) -> None:
        self._operator, self._keys, self._check = operator, list(keys), check
        self.firing = firing_of(operator.trigger) or Firing()
        self._is_global = isinstance(operator.assigner, GlobalWindows)
        clock = EVENT if operator.in_event_time else PROCESSING
        self.cleanup_clock = None if self._is_global else clock
        self.clock, self._has_timeout = self.firing.clock or clock, self.firing.timeout is not None
        # Where a trigger may have a timer behind the end of a window, its time does not tell it from a cleanup.
        keeps_waits = self.firing.interval or (self.firing.late_waits and not self._is_global)
        self.accumulators = Accumulators(operator.folding.function, rows)  # type: ignore[union-attr, arg-type]
        self._of_windows = {
            "starts": pa.field(START, pa.int64()),
            "ends": pa.field(END, pa.int64()),
            "timers": pa.field(self.clock, pa.int64()),
            **({"states": pa.field(_TRIGGER, pa.int64())} if self.firing.state else {}),
            **({"waits": pa.field(_WAITS, pa.bool_())} if keeps_waits else {}),
            **({"held": pa.field(_HELD, pa.bool_())} if self.firing.purges else {}),
            **({"timeouts": pa.field(_TIMEOUT, pa.int64())} if self._has_timeout else {}),
        }
        others = (self.cleanup_clock, PROCESSING if self._has_timeout else None)
        self.clocks = [*dict.fromkeys([self.clock, *(clock for clock in others if clock is not None)])]
        of_windows = [*self._of_windows.values(), *(pa.field(clock, pa.int64()) for clock in self.clocks[1:])]
        self.schema = pa.schema([*(rows.field(key) for key in keys), *of_windows, *self.accumulators.fields])

    def windows(self, table: pa.Table) -> Windows:
        """Return the windows of a table of the state."""
        columns = {name: table.column(field.name).to_numpy() for name, field in self._of_windows.items()}
        others = {
            "states": np.full(table.num_rows, self.firing.no_state),
            "waits": (columns["timers"] < columns["ends"]) & self.firing.at_end,
            "held": np.ones(table.num_rows, bool),
            "timeouts": np.full(table.num_rows, NEVER),
        }
        return Windows(**{**others, **columns})

    def of_windows(self, keys: Sequence[Any], windows: Windows, accumulators: Sequence[Any]) -> pa.Table:
        """Return a table of the state, of the columns of keys and accumulators, and windows."""
        columns = {field.name: getattr(windows, name) for name, field in self._of_windows.items()}
        columns |= {clock: self.cleanups(clock, windows.ends) for clock in self.clocks[1:]}
        if self._has_timeout:
            timeouts = np.where(windows.timeouts == OVER, NEVER, windows.timeouts)
            columns[PROCESSING] = np.minimum(columns[PROCESSING], timeouts)
        of_windows = [pa.array(column, self.schema.field(name).type) for name, column in columns.items()]
        return pa.Table.from_arrays([*keys, *of_windows, *accumulators], schema=self.schema)

    def timed(self, windows: Windows, watermark_ms: int) -> Windows:
        """Return windows with their next timers."""
        passed_ms = watermark_ms if self.clock == EVENT else MIN_TIME
        cleanups = self.cleanups(self.clock, windows.ends)
        return windows._replace(timers=self.firing.next_timers(windows, cleanups, passed_ms))

    def cleanups(self, clock: str, ends: Ints) -> Ints:
        """Return the times of a clock at which windows are forgotten."""
        return np.full_like(ends, NEVER) if clock != self.cleanup_clock else ends - 1 + self._operator.kept_for

    def of_panes(self, panes: Sequence[tuple[Key, OpenPane]], watermark_ms: int) -> pa.Table:
        """Return panes in the columns of the state.  Raises FunctionError for a sum that is too large."""
        name, nothing, function = self.firing.state, self.firing.no_state, self.accumulators.function
        bounds = [(MAX_TIME, MAX_TIME) if self._is_global else pane.window for _, pane in panes]
        starts, ends = (np.array([bound[place] for bound in bounds], np.int64) for place in (0, 1))
        states = np.array([pane.trigger.get(name, nothing) for _, pane in panes], np.int64)
        # A trigger's timer comes before the end of the window, and the cleanup of a window that has ended comes later.
        timers = [pane.timers[self.clock == PROCESSING] for _, pane in panes]
        firsts = np.array([min((min(time, NEVER - 1) for time in times), default=NEVER) for times in timers], np.int64)
        waits = (firsts < ends) & self.firing.at_end
        held = np.array([pane.contents is not None for _, pane in panes], bool)
        keys = [
            pa.array([key[place] for key, _ in panes], self.schema.field(name).type)
            for place, name in enumerate(self._keys)
        ]
        contents = [function.create_accumulator() if p.contents is None else p.contents for _, p in panes]
        try:
            accumulators = self.accumulators.of_lists(contents)
        except (pa.ArrowInvalid, OverflowError):
            given = zip(panes, contents, strict=True)
            self._check([Given(key, pane.window, function.get_result(value)) for (key, pane), value in given])
            raise
        timeouts = np.array([_timeout_of(pane) for _, pane in panes], np.int64)
        windows = Windows(starts, ends, firsts, states, waits, held, timeouts)
        return self.of_windows(keys, self.timed(windows, watermark_ms), accumulators)

    def panes(self, state: pa.Table) -> Iterator[tuple[Key, OpenPane]]:
        """Yield the windows of a table of the state, each with its key."""
        windows, contents_of = self.windows(state), self.accumulators.to_lists(state)
        for key, contents, start, end, _, value, waits, held, timeout in zip(
            keys_of(state, self._keys), contents_of, *(column.tolist() for column in windows), strict=True
        ):
            window = GlobalWindow() if self._is_global else TimeWindow(start, end)
            trigger = {} if value == self.firing.no_state else {self.firing.state: value}
            timers: dict[str, list[int]] = {EVENT: [], PROCESSING: []}
            timers[self.clock] += self.firing.timers(value, end) if waits else []
            if timeout != NEVER:
                trigger[TIMEOUT.name] = timeout
                timers[PROCESSING] += [timeout] if timeout != OVER else []
            yield key, OpenPane(window, contents if held else None, trigger, (timers[EVENT], timers[PROCESSING]))


def _timeout_of(pane: OpenPane) -> int:
    """Return the time of a window's time-out, as ``Windows`` has it."""
    time: int = pane.trigger.get(TIMEOUT.name, NEVER)
    return time if time == NEVER or time in pane.timers[1] else OVER
