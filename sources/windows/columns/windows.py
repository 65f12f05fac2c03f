"""Windows of many keys at once, in columns: SQL aggregates of windows whose timers are all of one clock.

The state is a table with a row for each key and open window.  What a trigger decides row by row is left to the rules
for one key (``KeyRun``): keys with rows behind the end of a window, or with enough rows for a trigger that counts, and
sums that are too large for Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.sources.windows.columns.accumulators import Accumulators
from tidegate.sources.windows.columns.firing import Bools, Firing, Ints, Places, Windows, firing_of
from tidegate.sources.windows.columns.sessions import begin_sessions, numbers_of_sessions
from tidegate.sources.windows.keys import Key, codes_of, keys_of
from tidegate.sources.windows.pages import EVENT, NEVER, PROCESSING
from tidegate.sources.windows.results import Given
from tidegate.sources.windows.state import KeyEntry
from tidegate.windows import (
    Aggregate,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    SqlAggregates,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowOperator,
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.key_windows import OpenPane
from tidegate.windows.rows import as_mappings
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.window import MAX_TIME, MIN_TIME

START, END = "__start", "__end"
_TRIGGER, _WAITS, _HELD = "__trigger", "__waits", "__holds_rows"
_ASSIGNERS = {
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
}


class Outcome(NamedTuple):
    """What a batch gives.

    fired: in order: rows of the state as they were when their windows fired, or results of keys taken row by row.
    """

    state: pa.Table
    fired: list[pa.Table | list[Given]]
    late: list[tuple[Key, Mapping[str, Any]]]


class ColumnWindows:
    """The windows of an operator, in columns.

    keys: the columns of the key.  time: the column of event times in ms.  elements: the columns of late rows, and those
    that functions read.
    check: raises FunctionError for a result that does not fit its type.
    """

    def __init__(
        self,
        operator: WindowOperator,
        keys: Sequence[str],
        time: str,
        elements: Sequence[str],
        rows: pa.Schema,
        check: Callable[[list[Given]], object],
    ) -> None:
        self._check = check
        self._operator, self._keys, self._time, self._elements = operator, list(keys), time, list(elements)
        self._firing, self._clock = firing_of(operator.trigger) or Firing(), _clock_of(operator) or EVENT
        self._is_global = isinstance(operator.assigner, GlobalWindows)
        # Where a trigger may have a timer behind the end of a window, its time does not tell it from a cleanup.
        keeps_waits = self._firing.interval or (self._firing.late_waits and not self._is_global)
        self._accumulators = Accumulators(operator.folding.function, rows)  # type: ignore[union-attr, arg-type]
        self._of_windows = {
            "starts": pa.field(START, pa.int64()),
            "ends": pa.field(END, pa.int64()),
            "timers": pa.field(self._clock, pa.int64()),
            **({"states": pa.field(_TRIGGER, pa.int64())} if self._firing.state else {}),
            **({"waits": pa.field(_WAITS, pa.bool_())} if keeps_waits else {}),
            **({"held": pa.field(_HELD, pa.bool_())} if self._firing.purges else {}),
        }
        of_windows = self._of_windows.values()
        self.schema = pa.schema([*(rows.field(key) for key in keys), *of_windows, *self._accumulators.fields])

    @staticmethod
    def takes(operator: WindowOperator, rows: pa.Schema) -> bool:
        """Return whether these windows can be kept in columns."""
        function = operator.folding
        return (
            _clock_of(operator) is not None
            and isinstance(function, Aggregate)
            and function.process is None
            and isinstance(function.function, SqlAggregates)
            and Accumulators.has(function.function, rows)
        )

    def run(self, state: pa.Table, rows: pa.Table | None, before_ms: int, after_ms: int, now_ms: int) -> Outcome:
        """Return what rows give between two watermarks, with the state of their keys and of timers that are due.

        now_ms: the processing time, which comes before the rows.
        """
        outcome = Outcome(state, [], [])
        if self._clock == PROCESSING:
            # All rows have one time, and none is behind it: a timer that is due at once waits for the next batch.
            outcome = self._advanced(outcome, now_ms)
            if rows is not None:
                times = pa.array(np.full(rows.num_rows, now_ms))
                rows = rows.set_column(rows.column_names.index(self._time), self._time, times)
            return self._taken(outcome, rows, MIN_TIME, now_ms)
        outcome = self._taken(self._advanced(outcome, before_ms), rows, before_ms, now_ms)
        return self._advanced(outcome, after_ms) if after_ms > before_ms else outcome

    def bounds(self, fired: pa.Table) -> list[Sequence[Any]]:
        """Return the starts and the ends of windows that fired, as times of Spark; None: of the window of all times."""
        if self._is_global:
            return [[None] * fired.num_rows] * 2
        return [(fired.column(name).to_numpy() * 1000).view("datetime64[us]") for name in (START, END)]

    def results(self, fired: pa.Table, types: Mapping[str, pa.DataType]) -> dict[str, pa.ChunkedArray]:
        """Return the results of windows that fired, by name."""
        return self._accumulators.results(fired, types)

    def _windows(self, table: pa.Table) -> Windows:
        """Return the windows of a table of the state."""
        columns = {name: table.column(field.name).to_numpy() for name, field in self._of_windows.items()}
        others = {
            "states": np.full(table.num_rows, self._firing.no_state),
            "waits": (columns["timers"] < columns["ends"]) & self._firing.at_end,
            "held": np.ones(table.num_rows, bool),
        }
        return Windows(**{**others, **columns})

    def _table_of(self, keys: Sequence[Any], windows: Windows, accumulators: Sequence[Any]) -> pa.Table:
        """Return a table of the state, of the columns of keys and accumulators, and windows."""
        of_windows = [pa.array(getattr(windows, name), field.type) for name, field in self._of_windows.items()]
        return pa.Table.from_arrays([*keys, *of_windows, *accumulators], schema=self.schema)

    def _advanced(self, outcome: Outcome, time_ms: int) -> Outcome:
        """Let timers fire up to a time of the clock, and forget the windows that take no more rows."""
        due = outcome.state.column(self._clock).to_numpy()
        if not len(due) or due.min() > time_ms:
            return outcome
        fired, waiting = [*outcome.fired], [_chosen(outcome.state, due > time_ms)]
        state = _chosen(outcome.state, due <= time_ms)
        windows, purges = self._windows(state), self._firing.purges
        times, states = self._firing.fired(windows, time_ms)
        if (gives := windows.waits & windows.held).any():
            often = np.where(gives, 1 if purges else times, 0)
            fired.append(state.take(pa.array(np.repeat(np.arange(len(often)), often))))
        cleanups, again = self._cleanups(windows.ends), windows.waits & (windows.ends - 1 > time_ms)
        timers, held = np.where(again, states, cleanups), windows.held & ~(windows.waits & purges)
        later = Windows(windows.starts, windows.ends, timers, states, again, held)
        accumulators = self._accumulators.cleared(state, windows.waits) if purges else self._accumulators.of(state)
        state = self._table_of(state.select(self._keys).columns, later, accumulators)
        waiting.append(_chosen(state, again | (cleanups > time_ms) | (held & (cleanups == NEVER))))
        return outcome._replace(state=pa.concat_tables(waiting), fired=fired)

    def _cleanups(self, ends: Ints) -> Ints:
        return np.full_like(ends, NEVER) if self._is_global else ends - 1 + self._operator.kept_for

    def _taken(self, outcome: Outcome, rows: pa.Table | None, watermark_ms: int, now_ms: int) -> Outcome:
        if rows is None or not rows.num_rows:
            return outcome
        state, merges, lateness = outcome.state, self._operator.assigner.merges, self._operator.allowed_lateness
        both_keys = ([*state.column(key).chunks, *rows.column(key).chunks] for key in self._keys)
        codes = codes_of(pa.chunked_array(chunks) for chunks in both_keys)
        of_state, of_rows = codes[: state.num_rows], codes[state.num_rows :]
        times = rows.column(self._time).to_numpy()
        places, starts, ends = self._assigned(times)
        is_open = ends - 1 > watermark_ms
        # Another row may merge a session that has ended with an open one, so none is known to be late.
        knows_late = self._operator.in_event_time and not merges
        is_late = ends - 1 + lateness <= watermark_ms if knows_late else np.zeros_like(is_open)
        by_row = np.zeros(codes.max() + 1, bool)
        # A row may make its window fire at once, or may be late.
        by_row[of_rows[places[~is_open & ~is_late]]] = True
        if merges and self._firing.interval:  # only a session that has ended waits for nothing, and may go on
            by_row[of_state[self._windows(state).states == self._firing.no_state]] = True
        places, starts, ends = places[is_open], starts[is_open], ends[is_open]
        table, of_table = self._table(state, of_state, rows, of_rows, (places, starts, ends))
        if self._firing.max_count and table.num_rows:
            groups = self._groups(table, of_table)
            counts = np.bincount(groups, weights=self._windows(table).states)
            by_row[of_table[counts[groups] >= self._firing.max_count]] = True
        by_row |= self._accumulators.inexact(table, of_table, len(by_row))
        late = outcome.late
        if knows_late:
            taken = np.zeros(len(times), bool)
            taken[places] = True
            behind = times <= max(watermark_ms - lateness, MIN_TIME) if watermark_ms < MAX_TIME else np.ones_like(taken)
            late = [*late, *self._by_key(_chosen(rows, ~taken & behind & ~by_row[of_rows]))]
        at_once = ~by_row[of_table]
        merged = self._merged(_chosen(table, at_once), of_table[at_once], watermark_ms)
        outcome = outcome._replace(late=late)
        if not by_row.any():
            return outcome._replace(state=merged)
        of_keys = outcome._replace(state=_chosen(state, by_row[of_state]))
        outcome = self._row_by_row(of_keys, _chosen(rows, by_row[of_rows]), watermark_ms, now_ms)
        return outcome._replace(state=pa.concat_tables([merged, outcome.state]))

    def _assigned(self, times: Ints) -> tuple[Places, Ints, Ints]:
        """Return pairs of rows and windows: the places of the rows, and the starts and ends of the windows."""
        assigner: Any = self._operator.assigner
        every = np.arange(len(times))
        if self._is_global:
            return every, np.full_like(times, MAX_TIME), np.full_like(times, MAX_TIME)
        if assigner.merges:
            return every, times, times + assigner.gap
        size, slide = assigner.size, getattr(assigner, "slide", assigner.size)
        last = times - (times - assigner.offset) % slide
        if size == slide:
            return every, last, last + size
        starts = np.concatenate([last - back for back in range(0, size, slide)])
        places = np.tile(every, -(-size // slide))
        holds = np.flatnonzero(starts + size > times[places])
        holds = holds[np.argsort(places[holds], kind="stable")]
        return places[holds], starts[holds], starts[holds] + size

    def _table(
        self, state: pa.Table, of_state: Ints, rows: pa.Table, of_rows: Ints, pairs: tuple[Places, Ints, Ints]
    ) -> tuple[pa.Table, Ints]:
        """Return the windows of the state, then those of pairs of rows and windows, with the codes of their keys."""
        places, starts, ends = pairs
        is_each = len(places) == rows.num_rows and bool((np.diff(places, prepend=-1) == 1).all())
        chosen = rows if is_each else rows.take(pa.array(places))
        codes = of_rows[places]
        states = self._firing.of_rows(chosen.column(self._time).to_numpy(), ends)
        if self._firing.interval and self._operator.assigner.merges:
            # A row that a session takes does not begin to wait: the session waits already.
            open_windows = (of_state, *(state.column(name).to_numpy() for name in (START, END)))
            states[~begin_sessions(open_windows, (codes, starts, ends))] = self._firing.no_state
        keys, yes = [chosen.column(key) for key in self._keys], np.ones(len(places), bool)
        windows = Windows(starts, ends, ends - 1, states, yes, yes)
        of_pairs = self._table_of(keys, windows, self._accumulators.of_rows(chosen))
        return pa.concat_tables([state, of_pairs]), np.concatenate((of_state, codes))

    def _groups(self, table: pa.Table, codes: Ints) -> Ints:
        """Return the number of the key and window of each row."""
        starts, ends = (table.column(name).to_numpy() for name in (START, END))
        if self._operator.assigner.merges:
            return numbers_of_sessions(codes, starts, ends)
        _, by_start = np.unique(starts, return_inverse=True)
        return np.unique(codes * (by_start.max() + 1) + by_start, return_inverse=True)[1]

    def _merged(self, table: pa.Table, codes: Ints, watermark_ms: int) -> pa.Table:
        """Return one row for each key and window."""
        if not table.num_rows:
            return table
        groups = self._groups(table, codes)
        order = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
        firsts = table.select(self._keys).take(pa.array(order[begins]))
        windows = self._windows(table)
        states = windows.states[order]
        if self._firing.max_count:
            states = np.add.reduceat(states, begins)
        elif self._operator.assigner.merges:
            states = np.minimum.reduceat(states, begins)
        else:
            states = states[begins]
        merged = Windows(
            np.minimum.reduceat(windows.starts[order], begins),
            np.maximum.reduceat(windows.ends[order], begins),
            windows.timers[order[begins]],
            states,
            np.logical_or.reduceat(windows.waits[order], begins),
            np.logical_or.reduceat(windows.held[order], begins),
        )
        accumulators = self._accumulators.merged(table, groups, order, begins)
        return self._table_of(firsts.columns, self._timed(merged, watermark_ms), accumulators)

    def _timed(self, windows: Windows, watermark_ms: int) -> Windows:
        """Return windows with their next timers."""
        return windows._replace(timers=self._firing.next_timers(windows, self._cleanups(windows.ends), watermark_ms))

    def _row_by_row(self, outcome: Outcome, rows: pa.Table, watermark_ms: int, now_ms: int) -> Outcome:
        """Take rows by the rules for one key."""
        panes: dict[Key, list[OpenPane]] = {}
        for key, pane in self._panes(outcome.state):
            panes.setdefault(key, []).append(pane)
        arrived: dict[Key, list[tuple[Any, int]]] = {}
        times = rows.column(self._time).to_pylist()
        for (key, row), time in zip(self._by_key(rows), times, strict=True):
            arrived.setdefault(key, []).append((row, time))
        given: list[Given] = []
        left: list[tuple[Key, OpenPane]] = []
        for key in {**panes, **arrived}:
            run = KeyRun(self._operator, key[0] if len(key) == 1 else key, MemoryKeyStore(), now_ms)
            run.advance_watermark(watermark_ms)
            run.open(panes.get(key, []))
            of_key = arrived.get(key, [])
            run.process_elements([row for row, _ in of_key], [time for _, time in of_key])
            given += [Given(key, fired.window, fired.value) for fired in run.results]
            outcome.late.extend((key, row) for row in run.late)
            left += [(key, pane) for pane in run.panes()]
        return outcome._replace(state=self.table(left, watermark_ms), fired=[*outcome.fired, given])

    def table(self, panes: Sequence[tuple[Key, OpenPane]], watermark_ms: int) -> pa.Table:
        """Return panes in the columns of the state.  Raises FunctionError for a sum that is too large."""
        name, nothing, function = self._firing.state, self._firing.no_state, self._accumulators.function
        bounds = [(MAX_TIME, MAX_TIME) if self._is_global else pane.window for _, pane in panes]
        starts, ends = (np.array([bound[place] for bound in bounds], np.int64) for place in (0, 1))
        states = np.array([pane.trigger.get(name, nothing) for _, pane in panes], np.int64)
        # A trigger's timer comes before the end of the window, and the cleanup of a window that has ended comes later.
        timers = (pane.timers[self._clock == PROCESSING] for _, pane in panes)
        firsts = np.array([min((min(time, NEVER - 1) for time in times), default=NEVER) for times in timers], np.int64)
        waits = (firsts < ends) & self._firing.at_end
        held = np.array([pane.contents is not None for _, pane in panes], bool)
        keys = [
            pa.array([key[place] for key, _ in panes], self.schema.field(name).type)
            for place, name in enumerate(self._keys)
        ]
        contents = [function.create_accumulator() if p.contents is None else p.contents for _, p in panes]
        try:
            accumulators = self._accumulators.of_lists(contents)
        except (pa.ArrowInvalid, OverflowError):
            given = zip(panes, contents, strict=True)
            self._check([Given(key, pane.window, function.get_result(value)) for (key, pane), value in given])
            raise
        windows = Windows(starts, ends, firsts, states, waits, held)
        return self._table_of(keys, self._timed(windows, watermark_ms), accumulators)

    def of_entries(self, entries: Mapping[Key, KeyEntry]) -> pa.Table:
        """Return the state of a layout that has the state of each key as one value."""
        by_watermark: defaultdict[int, list[tuple[Key, OpenPane]]] = defaultdict(list)
        for key, entry in entries.items():
            store = MemoryKeyStore()
            store.write(entry.value)
            run = KeyRun(self._operator, key, store)
            by_watermark[run.watermark if self._clock == EVENT else MIN_TIME] += [(key, pane) for pane in run.panes()]
        tables = [self.table(panes, watermark_ms) for watermark_ms, panes in by_watermark.items()]
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def _panes(self, state: pa.Table) -> Iterator[tuple[Key, OpenPane]]:
        windows, contents_of = self._windows(state), self._accumulators.to_lists(state)
        for key, contents, start, end, _, value, waits, held in zip(
            keys_of(state, self._keys), contents_of, *(column.tolist() for column in windows), strict=True
        ):
            window = GlobalWindow() if self._is_global else TimeWindow(start, end)
            trigger = {} if value == self._firing.no_state else {self._firing.state: value}
            timers = self._firing.timers(value, end) if waits else []
            of_clocks = ([], timers) if self._clock == PROCESSING else (timers, [])
            yield key, OpenPane(window, contents if held else None, trigger, of_clocks)

    def _by_key(self, rows: pa.Table) -> Iterator[tuple[Key, Mapping[str, Any]]]:
        return zip(keys_of(rows, self._keys), as_mappings(rows.select(self._elements)), strict=True)


def _clock_of(operator: WindowOperator) -> str | None:
    """Return the column with the timers of windows; None: these have timers of two clocks, or cannot be in columns."""
    assigner, firing = type(operator.assigner), firing_of(operator.trigger)
    if firing is None or assigner not in _ASSIGNERS:
        return None
    if assigner is GlobalWindows:  # it has no timers of its own; at the end of time it ends what is continuous
        return None if firing.interval and firing.clock == EVENT else firing.clock or PROCESSING
    clock = EVENT if operator.in_event_time else PROCESSING
    return clock if firing.clock in {None, clock} else None


def _chosen(table: pa.Table, mask: Bools) -> pa.Table:
    """Return the rows that a mask has; most often it has all or none."""
    places = np.flatnonzero(mask)
    if len(places) == len(mask):
        return table
    return table.take(pa.array(places)) if len(places) else table.slice(0, 0)
