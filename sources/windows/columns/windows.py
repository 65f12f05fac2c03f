"""Windows of many keys at once, in columns: SQL aggregates of tumbling, sliding and session windows in event time.

The state is a table with a row for each key and open window.  What a trigger decides row by row is left to the rules
for one key (``KeyRun``): keys with rows behind the end of a window, or with enough rows for a trigger that counts, and
sums that are too large for Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.sources.windows.columns.accumulators import Accumulators
from tidegate.sources.windows.columns.firing import Bools, Firing, Ints, Places, firing_of
from tidegate.sources.windows.columns.sessions import begin_sessions, numbers_of_sessions
from tidegate.sources.windows.keys import Key, codes_of, keys_of
from tidegate.sources.windows.pages import EVENT
from tidegate.sources.windows.results import Given
from tidegate.sources.windows.state import KeyEntry
from tidegate.windows import (
    Aggregate,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    SqlAggregates,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowOperator,
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.key_windows import OpenPane
from tidegate.windows.rows import as_mappings
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.window import MAX_TIME, MIN_TIME

START, END = "__start", "__end"
_TRIGGER, _WAITS, _HELD = "__trigger", "__waits", "__holds_rows"
_ASSIGNERS = {EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows}


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
        self._firing = firing_of(operator.trigger) or Firing()
        self._accumulators = Accumulators(operator.folding.function, rows)  # type: ignore[union-attr]
        times = [pa.field(name, pa.int64()) for name in (START, END, EVENT)]
        trigger = [pa.field(_TRIGGER, pa.int64())] if self._firing.state else []
        waits = [pa.field(_WAITS, pa.bool_())] if self._firing.interval else []
        held = [pa.field(_HELD, pa.bool_())] if self._firing.purges else []
        self._of_windows = [*times, *trigger, *waits, *held]
        self.schema = pa.schema([*(rows.field(key) for key in keys), *self._of_windows, *self._accumulators.fields])

    @staticmethod
    def takes(operator: WindowOperator, rows: pa.Schema) -> bool:
        """Return whether these windows can be kept in columns."""
        assigner, function = operator.assigner, operator.folding
        return (
            type(assigner) in _ASSIGNERS
            and firing_of(operator.trigger) is not None
            and isinstance(function, Aggregate)
            and function.process is None
            and isinstance(function.function, SqlAggregates)
            and Accumulators.has(function.function, rows)
        )

    def run(self, state: pa.Table, rows: pa.Table | None, before_ms: int, after_ms: int) -> Outcome:
        """Return what rows give between two watermarks, with the state of their keys and of timers that are due."""
        outcome = self._advanced(Outcome(state, [], []), before_ms)
        if rows is not None and rows.num_rows:
            outcome = self._taken(outcome, rows, before_ms)
        return self._advanced(outcome, after_ms) if after_ms > before_ms else outcome

    def results(self, fired: pa.Table, types: Mapping[str, pa.DataType]) -> dict[str, pa.ChunkedArray]:
        """Return the results of windows that fired, by name."""
        return self._accumulators.results(fired, types)

    def _advanced(self, outcome: Outcome, watermark_ms: int) -> Outcome:
        """Let timers fire up to a watermark, and forget the windows that take no more rows."""
        due = _ints(outcome.state, EVENT)
        if not len(due) or due.min() > watermark_ms:
            return outcome
        fired, waiting = [*outcome.fired], [_chosen(outcome.state, due > watermark_ms)]
        state = _chosen(outcome.state, due <= watermark_ms)
        ends, waits, held = _ints(state, END), self._waits(state), self._held(state)
        times, states = self._firing.fired(self._states(state), ends, watermark_ms)
        if (gives := waits & held).any():
            often = np.where(gives, 1 if self._firing.purges else times, 0)
            fired.append(state.take(pa.array(np.repeat(np.arange(len(often)), often))))
        again = waits & (ends - 1 > watermark_ms)
        state = self._after(state, waits, again, states)
        waiting.append(_chosen(state, again | (self._cleanups(ends) > watermark_ms)))
        return outcome._replace(state=pa.concat_tables(waiting), fired=fired)

    def _after(self, state: pa.Table, fires: Bools, again: Bools, states: Ints) -> pa.Table:
        """Return windows after their timers: some fire, and some of these wait again."""
        timers = np.where(again, states, self._cleanups(_ints(state, END)))
        changed = {EVENT: timers, _TRIGGER: states, _WAITS: again, _HELD: self._held(state) & ~fires}
        for field in self._of_windows:
            if field.name in changed:
                state = _with(state, field.name, pa.array(changed[field.name]))
        if self._firing.purges and fires.any():
            for name, column in self._accumulators.cleared(state, fires).items():
                state = _with(state, name, column)
        return state

    def _cleanups(self, ends: Ints) -> Ints:
        return ends - 1 + self._operator.allowed_lateness

    def _waits(self, table: pa.Table) -> Bools:
        """Return whether the trigger of each window has a timer; otherwise its cleanup is due.

        Only a continuous trigger may have a timer that is due behind the end of its window.
        """
        if not self._firing.at_end:
            return np.zeros(table.num_rows, bool)
        if self._firing.interval:
            return _bools(table, _WAITS)
        return _ints(table, EVENT) < _ints(table, END)

    def _states(self, table: pa.Table) -> Ints:
        """Return the trigger's states of windows."""
        if not self._firing.state:
            return np.full(table.num_rows, self._firing.no_state)
        return _ints(table, _TRIGGER)

    def _held(self, table: pa.Table) -> Bools:
        """Return which windows hold rows: others were purged."""
        return _bools(table, _HELD) if self._firing.purges else np.ones(table.num_rows, bool)

    def _taken(self, outcome: Outcome, rows: pa.Table, watermark_ms: int) -> Outcome:
        state, merges, lateness = outcome.state, self._operator.assigner.merges, self._operator.allowed_lateness
        both_keys = ([*state.column(key).chunks, *rows.column(key).chunks] for key in self._keys)
        codes = codes_of(pa.chunked_array(chunks) for chunks in both_keys)
        of_state, of_rows = codes[: state.num_rows], codes[state.num_rows :]
        times = rows.column(self._time).to_numpy()
        places, starts, ends = self._assigned(times)
        is_open = ends - 1 > watermark_ms
        # Another row may merge a session that has ended with an open one, so none is known to be late.
        is_late = np.zeros_like(is_open) if merges else ends - 1 + lateness <= watermark_ms
        by_row = np.zeros(codes.max() + 1, bool)
        # A row may make its window fire at once, or may be late.
        by_row[of_rows[places[~is_open & ~is_late]]] = True
        if merges and self._firing.interval:  # only a session that has ended waits for nothing, and may go on
            by_row[of_state[self._states(state) == self._firing.no_state]] = True
        places, starts, ends = places[is_open], starts[is_open], ends[is_open]
        table, of_table = self._table(state, of_state, rows, of_rows, (places, starts, ends))
        if self._firing.max_count and table.num_rows:
            groups = self._groups(table, of_table)
            counts = np.bincount(groups, weights=self._states(table))
            by_row[of_table[counts[groups] >= self._firing.max_count]] = True
        by_row |= self._accumulators.inexact(table, of_table, len(by_row))
        late = outcome.late
        if not merges:
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
        outcome = self._row_by_row(of_keys, _chosen(rows, by_row[of_rows]), watermark_ms)
        return outcome._replace(state=pa.concat_tables([merged, outcome.state]))

    def _assigned(self, times: Ints) -> tuple[Places, Ints, Ints]:
        """Return pairs of rows and windows: the places of the rows, and the starts and ends of the windows."""
        assigner: Any = self._operator.assigner
        every = np.arange(len(times))
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
        chosen = rows if len(places) == rows.num_rows and self._is_one_each else rows.take(pa.array(places))
        codes = of_rows[places]
        states = self._firing.of_rows(chosen.column(self._time).to_numpy(), ends)
        if self._firing.interval and self._operator.assigner.merges:
            # A row that a session takes does not begin to wait: the session waits already.
            open_windows = (of_state, *(state.column(name).to_numpy() for name in (START, END)))
            states[~begin_sessions(open_windows, (codes, starts, ends))] = self._firing.no_state
        keys = [chosen.column(key) for key in self._keys]
        yes = np.ones(len(places), bool)
        of_windows = self._columns_of_windows(starts, ends, ends - 1, states, yes, yes)
        columns = [*keys, *of_windows, *self._accumulators.of_rows(chosen)]
        table = pa.concat_tables([state, pa.Table.from_arrays(columns, schema=self.schema)])
        return table, np.concatenate((of_state, codes))

    def _columns_of_windows(
        self, starts: Ints, ends: Ints, due: Ints, states: Ints, waits: Bools, held: Bools
    ) -> list[pa.Array]:
        columns = {START: starts, END: ends, EVENT: due, _TRIGGER: states, _WAITS: waits, _HELD: held}
        return [pa.array(columns[field.name], field.type) for field in self._of_windows]

    @property
    def _is_one_each(self) -> bool:
        return type(self._operator.assigner) is not SlidingEventTimeWindows

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
        starts, ends, states = table.column(START).to_numpy(), table.column(END).to_numpy(), self._states(table)
        starts, ends = np.minimum.reduceat(starts[order], begins), np.maximum.reduceat(ends[order], begins)
        if self._firing.max_count:
            states = np.add.reduceat(states[order], begins)
        elif self._operator.assigner.merges:
            states = np.minimum.reduceat(states[order], begins)
        else:
            states = states[order[begins]]
        waits, held = (np.logical_or.reduceat(of(table)[order], begins) for of in (self._waits, self._held))
        due = self._firing.next_timers(states, ends, waits, self._cleanups(ends), watermark_ms)
        accumulators = self._accumulators.merged(table, groups, order, begins)
        of_windows = self._columns_of_windows(starts, ends, due, states, waits, held)
        return pa.Table.from_arrays([*firsts.columns, *of_windows, *accumulators], schema=self.schema)

    def _row_by_row(self, outcome: Outcome, rows: pa.Table, watermark_ms: int) -> Outcome:
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
            run = KeyRun(self._operator, key[0] if len(key) == 1 else key, MemoryKeyStore())
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
        starts, ends = (np.array([pane.window[place] for _, pane in panes], np.int64) for place in (0, 1))
        states = np.array([pane.trigger.get(name, nothing) for _, pane in panes], np.int64)
        # A trigger's timer comes before the end of the window, and the cleanup of a window that has ended comes later.
        firsts = np.array([min(pane.timers, default=MAX_TIME) for _, pane in panes], np.int64)
        waits = (firsts < ends) & self._firing.at_end
        due = self._firing.next_timers(states, ends, waits, self._cleanups(ends), watermark_ms)
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
        of_windows = self._columns_of_windows(starts, ends, due, states, waits, held)
        return pa.Table.from_arrays([*keys, *of_windows, *accumulators], schema=self.schema)

    def of_entries(self, entries: Mapping[Key, KeyEntry]) -> pa.Table:
        """Return the state of a layout that has the state of each key as one value."""
        tables = [self.schema.empty_table()]
        for key, entry in entries.items():
            store = MemoryKeyStore()
            store.write(entry.value)
            run = KeyRun(self._operator, key, store)
            tables.append(self.table([(key, pane) for pane in run.panes()], run.watermark))
        return pa.concat_tables(tables)

    def _panes(self, state: pa.Table) -> Iterator[tuple[Key, OpenPane]]:
        windows = map(TimeWindow, *(state.column(name).to_pylist() for name in (START, END)))
        of_windows = (column.tolist() for column in (self._states(state), self._waits(state), self._held(state)))
        contents_of = self._accumulators.to_lists(state)
        columns = keys_of(state, self._keys), windows, contents_of, *of_windows
        for key, window, contents, value, waits, held in zip(*columns, strict=True):
            trigger = {} if value == self._firing.no_state else {self._firing.state: value}
            timers = self._firing.timers(value, window.end) if waits else []
            yield key, OpenPane(window, contents if held else None, trigger, timers)

    def _by_key(self, rows: pa.Table) -> Iterator[tuple[Key, Mapping[str, Any]]]:
        return zip(keys_of(rows, self._keys), as_mappings(rows.select(self._elements)), strict=True)


def _chosen(table: pa.Table, mask: Bools) -> pa.Table:
    """Return the rows that a mask has; most often it has all or none."""
    places = np.flatnonzero(mask)
    if len(places) == len(mask):
        return table
    return table.take(pa.array(places)) if len(places) else table.slice(0, 0)


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table.column(name).to_numpy(), np.int64)


def _bools(table: pa.Table, name: str) -> Bools:
    return np.asarray(table.column(name).to_numpy(), np.bool_)


def _with(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
