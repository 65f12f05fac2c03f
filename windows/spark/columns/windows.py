"""Windows of many keys at once, in columns: SQL aggregates of tidegate's windows and triggers.

The state is a table with a row for each key and open window.  The rules for one key (``KeyRun``) take what a trigger
decides row by row: keys with rows behind the end of a window, with a session that has ended, or with enough rows for a
count, unless it purges windows that do not merge.  They also take windows with a time-out that have a timer due, and
values that Arrow would add or compare in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.windows import (
    Aggregate,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    SqlAggregates,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowOperator,
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.key_windows import OpenPane
from tidegate.windows.rows import as_mappings
from tidegate.windows.spark.columns.accumulators import Accumulators
from tidegate.windows.spark.columns.firing import (
    Bools,
    Ints,
    Places,
    Windows,
    begin_sessions,
    firing_of,
    numbers_of_sessions,
)
from tidegate.windows.spark.columns.table import END, START, WindowTable
from tidegate.windows.spark.keys import Key, codes_of, keys_of
from tidegate.windows.spark.pages import EVENT, NEVER, PROCESSING
from tidegate.windows.spark.results import Given
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.window import MAX_TIME, MIN_TIME

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
        self._operator, self._keys, self._time, self._elements = operator, list(keys), time, list(elements)
        self._table = WindowTable(operator, keys, rows, check)
        self._firing, self._accumulators = self._table.firing, self._table.accumulators
        self._is_global = isinstance(operator.assigner, GlobalWindows)
        self.schema = self._table.schema

    @staticmethod
    def takes(operator: WindowOperator, rows: pa.Schema) -> bool:
        """Return whether these windows can be kept in columns."""
        function = operator.folding
        return (
            firing_of(operator.trigger) is not None
            and type(operator.assigner) in _ASSIGNERS
            and isinstance(function, Aggregate)
            and function.process is None
            and isinstance(function.function, SqlAggregates)
            and Accumulators.has(function.function, rows)
        )

    def run(self, state: pa.Table, rows: pa.Table | None, before_ms: int, after_ms: int, now_ms: int) -> Outcome:
        """Return what rows give between two watermarks, with the state of their keys and of timers that are due.

        now_ms: the processing time, which comes before the rows.
        """
        outcome = self._advanced(Outcome(state, [], []), EVENT, before_ms, now_ms)
        outcome = self._advanced(outcome, PROCESSING, before_ms, now_ms)
        # A timer of the clock that a row sets, and that is due at once, waits for the next batch.
        outcome = self._taken(outcome, rows, before_ms, now_ms)
        return self._advanced(outcome, EVENT, after_ms, now_ms) if after_ms > before_ms else outcome

    def bounds(self, fired: pa.Table) -> list[Sequence[Any]]:
        """Return the starts and the ends of windows that fired, as times of Spark; None: of the window of all times."""
        if self._is_global:
            return [[None] * fired.num_rows] * 2
        return [(fired.column(name).to_numpy() * 1000).view("datetime64[us]") for name in (START, END)]

    def results(self, fired: pa.Table, types: Mapping[str, pa.DataType]) -> dict[str, pa.ChunkedArray]:
        """Return the results of windows that fired, by name."""
        return self._accumulators.results(fired, types)

    def _advanced(self, outcome: Outcome, clock: str, watermark_ms: int, now_ms: int) -> Outcome:
        """Let timers of a clock fire up to its time, and forget the windows that take no more rows."""
        if clock not in self._table.clocks:
            return outcome
        due = outcome.state.column(clock).to_numpy()
        time_ms = min(watermark_ms, NEVER - 1) if clock == EVENT else now_ms
        if not len(due) or due.min() > time_ms:
            return outcome
        fired, waiting = [*outcome.fired], [_chosen(outcome.state, due > time_ms)]
        state = _chosen(outcome.state, due <= time_ms)
        if self._firing.timeout is not None:
            outcome = self._timed_out(outcome._replace(state=state), watermark_ms, now_ms)
            return outcome._replace(state=pa.concat_tables([*waiting, outcome.state]))
        if clock != self._table.clock:
            return outcome._replace(state=waiting[0])
        windows, purges = self._table.windows(state), self._firing.purges
        times, states = self._firing.fired(windows, time_ms)
        if (gives := windows.waits & windows.held).any():
            often = np.where(gives, 1 if purges else times, 0)
            fired.append(state.take(pa.array(np.repeat(np.arange(len(often)), often))))
        cleanups, again = self._table.cleanups(clock, windows.ends), windows.waits & (windows.ends - 1 > time_ms)
        timers, held = np.where(again, states, cleanups), windows.held & ~(windows.waits & purges)
        later = windows._replace(timers=timers, states=states, waits=again, held=held)
        accumulators = self._accumulators.cleared(state, windows.waits) if purges else self._accumulators.of(state)
        state = self._table.of_windows(state.select(self._keys).columns, later, accumulators)
        if clock == self._table.cleanup_clock:
            stays = cleanups > time_ms
        else:  # the other time cleans up, if any does
            stays = held | (self._table.cleanup_clock is not None)
        waiting.append(_chosen(state, again | stays))
        return outcome._replace(state=pa.concat_tables(waiting), fired=fired)

    def _taken(self, outcome: Outcome, rows: pa.Table | None, watermark_ms: int, now_ms: int) -> Outcome:
        if rows is None or not rows.num_rows:
            return outcome
        state, merges, lateness = outcome.state, self._operator.assigner.merges, self._operator.allowed_lateness
        both_keys = ([*state.column(key).chunks, *rows.column(key).chunks] for key in self._keys)
        codes = codes_of(pa.chunked_array(chunks) for chunks in both_keys)
        of_state, of_rows = codes[: state.num_rows], codes[state.num_rows :]
        times = rows.column(self._time).to_numpy()
        places, starts, ends = self._assigned(times if self._operator.in_event_time else np.full_like(times, now_ms))
        is_open = np.ones_like(ends, bool) if EVENT not in self._table.clocks else ends - 1 > watermark_ms
        # Another row may merge a session that has ended with an open one, so none is known to be late.
        knows_late = self._operator.in_event_time and not merges
        is_late = ends - 1 + lateness <= watermark_ms if knows_late else np.zeros_like(is_open)
        by_row = np.zeros(codes.max() + 1, bool)
        # A row may make its window fire at once, set a timer behind the watermark, or be late.
        by_row[of_rows[places[~is_open & ~is_late]]] = True
        if merges and self._firing.interval:  # only a session that has ended waits for nothing, and may go on
            windows = self._table.windows(state)
            has_ended = windows.states == self._firing.no_state
            if self._table.clock != self._table.cleanup_clock:
                # One that fired at its end by one clock is open by the other, and waits again only if it grows.
                has_ended |= ~windows.waits
            by_row[of_state[has_ended & np.isin(of_state, of_rows)]] = True
        places, starts, ends = places[is_open], starts[is_open], ends[is_open]
        table, of_table = self._with_pairs(state, of_state, rows, of_rows, (places, starts, ends), now_ms)
        groups = self._groups(table, of_table)
        counts_all = self._firing.max_count > 0 and self._firing.purges and not merges
        if self._firing.max_count and not counts_all:
            counts = np.bincount(groups, weights=self._table.windows(table).states)
            by_row[of_table[counts[groups] >= self._firing.max_count]] = True
        by_row |= self._accumulators.inexact(table, of_table, len(by_row))
        if knows_late:
            is_behind = self._is_behind(times, places, watermark_ms)
            late = [*outcome.late, *self._by_key(_chosen(rows, is_behind & ~by_row[of_rows]))]
            outcome = outcome._replace(late=late)
        at_once = ~by_row[of_table]
        table, groups = _chosen(table, at_once), groups[at_once]
        if counts_all and table.num_rows:
            counted, table, groups = self._counted(table, groups, watermark_ms)
            outcome = outcome._replace(fired=[*outcome.fired, counted] if counted.num_rows else outcome.fired)
        merged = self._merged(table, groups, watermark_ms)
        if not by_row.any():
            return outcome._replace(state=merged)
        of_keys = outcome._replace(state=_chosen(state, by_row[of_state]))
        outcome = self._row_by_row(of_keys, _chosen(rows, by_row[of_rows]), watermark_ms, now_ms)
        return outcome._replace(state=pa.concat_tables([merged, outcome.state]))

    def _is_behind(self, times: Ints, taken: Places, watermark_ms: int) -> Bools:
        """Return which rows are late: the watermark has passed them, and no window takes them."""
        is_behind = np.ones(len(times), bool)
        if watermark_ms < MAX_TIME:
            is_behind = times <= max(watermark_ms - self._operator.allowed_lateness, MIN_TIME)
        is_behind[taken] = False
        return is_behind

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

    def _with_pairs(
        self,
        state: pa.Table,
        of_state: Ints,
        rows: pa.Table,
        of_rows: Ints,
        pairs: tuple[Places, Ints, Ints],
        now_ms: int,
    ) -> tuple[pa.Table, Ints]:
        """Return the windows of the state, then those of pairs of rows and windows, with the codes of their keys."""
        places, starts, ends = pairs
        is_each = len(places) == rows.num_rows and bool((np.diff(places, prepend=-1) == 1).all())
        chosen = rows if is_each else rows.take(pa.array(places))
        codes = of_rows[places]
        times = chosen.column(self._time).to_numpy()
        states = self._firing.of_rows(np.full_like(times, now_ms) if self._table.clock == PROCESSING else times, ends)
        if self._firing.interval and self._operator.assigner.merges:
            # A row that a session takes does not begin to wait: the session waits already.
            open_windows = (of_state, *(state.column(name).to_numpy() for name in (START, END)))
            states[~begin_sessions(open_windows, (codes, starts, ends))] = self._firing.no_state
        keys, yes = [chosen.column(key) for key in self._keys], np.ones(len(places), bool)
        timeouts = np.full_like(ends, NEVER if self._firing.timeout is None else now_ms + self._firing.timeout)
        windows = Windows(starts, ends, ends - 1, states, yes, yes, timeouts)
        of_pairs = self._table.of_windows(keys, windows, self._accumulators.of_rows(chosen))
        return pa.concat_tables([state, of_pairs]), np.concatenate((of_state, codes))

    def _groups(self, table: pa.Table, codes: Ints) -> Ints:
        """Return the number of the key and window of each row."""
        if not table.num_rows:
            return codes
        starts, ends = (table.column(name).to_numpy() for name in (START, END))
        if self._operator.assigner.merges:
            return numbers_of_sessions(codes, starts, ends)
        _, by_start = np.unique(starts, return_inverse=True)
        return np.unique(codes * (by_start.max() + 1) + by_start, return_inverse=True)[1]

    def _counted(self, table: pa.Table, groups: Ints, watermark_ms: int) -> tuple[pa.Table, pa.Table, Ints]:
        """Return windows as often as enough of their rows have come, then the table without these rows, and its groups.

        A trigger that purges whenever it fires begins to count anew.
        """
        counts, enough = self._table.windows(table).states, self._firing.max_count
        order = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
        sums, sizes = np.cumsum(counts[order]), np.diff(begins, append=len(order))
        before, after = (
            np.repeat(ends, sizes) for ends in (sums[begins] - counts[order[begins]], sums[begins + sizes - 1])
        )
        firings, is_counted = np.empty_like(groups), np.empty(len(groups), bool)
        firings[order] = np.maximum(sums - before - 1, 0) // enough
        is_counted[order] = firings[order] < (after - before) // enough
        by_firing = groups[is_counted] * (firings.max() + 1) + firings[is_counted]
        fired = self._merged(_chosen(table, is_counted), by_firing, watermark_ms)
        return fired, _chosen(table, ~is_counted), groups[~is_counted]

    def _merged(self, table: pa.Table, groups: Ints, watermark_ms: int) -> pa.Table:
        """Return one row for each group."""
        if not table.num_rows:
            return table
        order = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
        firsts = table.select(self._keys).take(pa.array(order[begins]))
        windows = self._table.windows(table)
        states = windows.states[order]
        if self._firing.max_count:
            states = np.add.reduceat(states, begins)
        elif self._operator.assigner.merges:
            states = np.minimum.reduceat(states, begins)
        else:
            states = states[begins]
        # A window that fired by the clock at its end goes on in event time, and takes rows without waiting again.
        first_decides = self._firing.interval > 0 and not self._operator.assigner.merges
        merged = Windows(
            np.minimum.reduceat(windows.starts[order], begins),
            np.maximum.reduceat(windows.ends[order], begins),
            windows.timers[order[begins]],
            states,
            windows.waits[order[begins]] if first_decides else np.logical_or.reduceat(windows.waits[order], begins),
            np.logical_or.reduceat(windows.held[order], begins),
            self._timeouts(windows.timeouts, order, begins),
        )
        accumulators = self._accumulators.merged(table, groups, order, begins)
        return self._table.of_windows(firsts.columns, self._table.timed(merged, watermark_ms), accumulators)

    def _timeouts(self, timeouts: Ints, order: Places, begins: Places) -> Ints:
        """Return the time-outs of merged windows."""
        firsts = timeouts[order[begins]]
        if self._firing.timeout is None:
            return firsts
        lasts = timeouts[order[np.append(begins[1:], len(order)) - 1]]
        # Not the earliest: the clock may go back.
        return lasts if self._firing.restarts else np.where(firsts == NEVER, lasts, firsts)

    def _timed_out(self, outcome: Outcome, watermark_ms: int, now_ms: int) -> Outcome:
        """Let timers fire by the rules for one key.  Windows whose cleanup is due are gone before their time-outs."""

        def advance(_: Key, run: KeyRun, panes: list[OpenPane]) -> None:
            run.open(panes)
            run.advance_watermark(watermark_ms)
            run.advance_processing_time(now_ms)

        return self._key_by_key(outcome, (), advance, watermark_ms, now_ms)

    def _row_by_row(self, outcome: Outcome, rows: pa.Table, watermark_ms: int, now_ms: int) -> Outcome:
        """Take rows by the rules for one key."""
        arrived: dict[Key, list[tuple[Any, int]]] = {}
        times = rows.column(self._time).to_pylist()
        for (key, row), time in zip(self._by_key(rows), times, strict=True):
            arrived.setdefault(key, []).append((row, time))

        def take(key: Key, run: KeyRun, panes: list[OpenPane]) -> None:
            run.advance_watermark(watermark_ms)
            run.open(panes)
            of_key = arrived.get(key, [])
            run.process_elements([row for row, _ in of_key], [time for _, time in of_key])

        return self._key_by_key(outcome, arrived, take, watermark_ms, now_ms)

    def _key_by_key(
        self,
        outcome: Outcome,
        arrived: Iterable[Key],
        handle: Callable[[Key, KeyRun, list[OpenPane]], None],
        watermark_ms: int,
        now_ms: int,
    ) -> Outcome:
        """Handle windows, and keys whose rows have arrived, by the rules for one key."""
        panes: dict[Key, list[OpenPane]] = {key: [] for key in arrived}
        for key, pane in self._table.panes(outcome.state):
            panes.setdefault(key, []).append(pane)
        given: list[Given] = []
        left: list[tuple[Key, OpenPane]] = []
        for key, of_key in panes.items():
            run = KeyRun(self._operator, key[0] if len(key) == 1 else key, MemoryKeyStore(), now_ms)
            handle(key, run, of_key)
            given += [Given(key, fired.window, fired.value) for fired in run.results]
            outcome.late.extend((key, row) for row in run.late)
            left += [(key, pane) for pane in run.panes()]
        return outcome._replace(state=self._table.of_panes(left, watermark_ms), fired=[*outcome.fired, given])

    def _by_key(self, rows: pa.Table) -> Iterator[tuple[Key, Mapping[str, Any]]]:
        return zip(keys_of(rows, self._keys), as_mappings(rows.select(self._elements)), strict=True)


def _chosen(table: pa.Table, mask: Bools) -> pa.Table:
    """Return the rows that a mask has; most often it has all or none."""
    places = np.flatnonzero(mask)
    if len(places) == len(mask):
        return table
    return table.take(pa.array(places)) if len(places) else table.slice(0, 0)
