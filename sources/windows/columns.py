"""Windows of many keys at once, in columns: SQL aggregates of tumbling, sliding and session windows in event time.

The state is a table with a row for each key and open window.  What a trigger decides row by row is left to the rules
for one key (``KeyRun``): keys with rows behind the end of a window, and sums that are too large for Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.sources.windows.accumulators import Accumulators
from tidegate.sources.windows.keys import Key, codes_of, keys_of
from tidegate.sources.windows.pages import EVENT
from tidegate.sources.windows.results import Given
from tidegate.sources.windows.state import KeyEntry
from tidegate.windows import (
    Aggregate,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    SqlAggregates,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowOperator,
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.key_windows import Fired
from tidegate.windows.rows import as_mappings
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.window import MAX_TIME, MIN_TIME

START, END = "__start", "__end"
Ints: TypeAlias = npt.NDArray[np.int64]
_ASSIGNERS = {EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows}


class Outcome(NamedTuple):
    """What a batch gives.

    fired: rows of the state as they were when their windows fired.
    one_by_one: results of keys whose rows were taken one by one.
    """

    state: pa.Table
    fired: list[pa.Table]
    one_by_one: list[tuple[Key, Fired]]
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
        self._accumulators = Accumulators(operator.folding.function, rows)  # type: ignore[union-attr]
        times = [pa.field(name, pa.int64()) for name in (START, END, EVENT)]
        self.schema = pa.schema([*(rows.field(key) for key in keys), *times, *self._accumulators.fields])

    @staticmethod
    def takes(operator: WindowOperator, rows: pa.Schema) -> bool:
        """Return whether these windows can be kept in columns."""
        assigner, function = operator.assigner, operator.folding
        return (
            type(assigner) in _ASSIGNERS
            and type(operator.trigger) is EventTimeTrigger
            and isinstance(function, Aggregate)
            and function.process is None
            and isinstance(function.function, SqlAggregates)
            and Accumulators.has(function.function, rows)
        )

    def run(self, state: pa.Table, rows: pa.Table | None, before_ms: int, after_ms: int) -> Outcome:
        """Return what rows give between two watermarks, with the state of their keys and of timers that are due."""
        outcome = Outcome(state, [], [], [])
        outcome = self._advanced(outcome, before_ms)
        if rows is not None and rows.num_rows:
            outcome = self._taken(outcome, rows, before_ms)
        return self._advanced(outcome, after_ms) if after_ms > before_ms else outcome

    def results(self, fired: pa.Table, types: dict[str, pa.DataType]) -> dict[str, pa.ChunkedArray]:
        """Return the results of windows that fired, by name."""
        return self._accumulators.results(fired, types)

    def _advanced(self, outcome: Outcome, watermark_ms: int) -> Outcome:
        """Fire the windows that end, and forget those that take no more rows."""
        state = outcome.state
        due = state.column(EVENT).to_numpy()
        if not len(due) or due.min() > watermark_ms:
            return outcome
        lasts = state.column(END).to_numpy() - 1
        fires = (due == lasts) & (due <= watermark_ms)
        fired = [*outcome.fired, _chosen(state, fires)] if fires.any() else outcome.fired
        cleanups = lasts + self._operator.allowed_lateness
        due = np.where(fires, cleanups, due)
        state = _with(state, EVENT, due)
        return outcome._replace(state=_chosen(state, due > watermark_ms), fired=fired)

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
        # Keys with rows that make a window fire at once, or that may be late, follow the rules row by row.
        is_hard = np.zeros(codes.max() + 1, bool)
        is_hard[of_rows[places[~is_open & ~is_late]]] = True
        late: list[tuple[Key, Mapping[str, Any]]] = []
        if not merges:
            taken = np.zeros(len(times), bool)
            taken[places[~is_late]] = True
            behind = times <= max(watermark_ms - lateness, MIN_TIME) if watermark_ms < MAX_TIME else np.ones_like(taken)
            lost = _chosen(rows, ~taken & behind & ~is_hard[of_rows])
            late = [*outcome.late, *self._by_key(lost)]
        kept = is_open & ~is_hard[of_rows[places]]
        easy = self._table(rows, places[kept], starts[kept], ends[kept])
        both = pa.concat_tables([_chosen(state, ~is_hard[of_state]), easy])
        if not self._accumulators.are_exact(both):
            is_hard[:] = True
            late, both = outcome.late, state.slice(0, 0)
        else:
            both_codes = np.concatenate((of_state[~is_hard[of_state]], of_rows[places[kept]]))
            both = self._merged(both, both_codes, watermark_ms)
        outcome = outcome._replace(late=late)
        if not is_hard.any():
            return outcome._replace(state=both)
        alone = self._one_by_one(
            outcome._replace(state=_chosen(state, is_hard[of_state])),
            _chosen(rows, is_hard[of_rows]),
            watermark_ms,
        )
        return alone._replace(state=pa.concat_tables([both, alone.state]))

    def _assigned(self, times: Ints) -> tuple[npt.NDArray[np.intp], Ints, Ints]:
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

    def _table(self, rows: pa.Table, places: npt.NDArray[np.intp], starts: Ints, ends: Ints) -> pa.Table:
        """Return pairs of rows and windows in the columns of the state."""
        chosen = rows if len(places) == rows.num_rows and self._is_one_each else rows.take(pa.array(places))
        keys = [chosen.column(key) for key in self._keys]
        times = map(pa.array, (starts, ends, ends - 1))
        return pa.Table.from_arrays([*keys, *times, *self._accumulators.of_rows(chosen)], schema=self.schema)

    @property
    def _is_one_each(self) -> bool:
        return type(self._operator.assigner) is not SlidingEventTimeWindows

    def _merged(self, table: pa.Table, codes: Ints, watermark_ms: int) -> pa.Table:
        """Return one row for each key and window."""
        if not table.num_rows:
            return table
        starts, ends = (table.column(name).to_numpy() for name in (START, END))
        if self._operator.assigner.merges:
            groups = _sessions(codes, starts, ends)
        else:
            _, by_start = np.unique(starts, return_inverse=True)
            _, groups = np.unique(codes * (by_start.max() + 1) + by_start, return_inverse=True)
        order = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
        firsts = table.select(self._keys).take(pa.array(order[begins]))
        starts, ends = np.minimum.reduceat(starts[order], begins), np.maximum.reduceat(ends[order], begins)
        due = np.where(ends - 1 > watermark_ms, ends - 1, ends - 1 + self._operator.allowed_lateness)
        held = self._accumulators.merged(table, groups, order, begins)
        return pa.Table.from_arrays([*firsts.columns, *map(pa.array, (starts, ends, due)), *held], schema=self.schema)

    def _one_by_one(self, outcome: Outcome, rows: pa.Table, watermark_ms: int) -> Outcome:
        """Take rows by the rules for one key."""
        panes: dict[Key, list[tuple[TimeWindow, list[Any]]]] = {}
        for key, window, contents in self._panes(outcome.state):
            panes.setdefault(key, []).append((window, contents))
        arrived: dict[Key, list[tuple[Any, int]]] = {}
        times = rows.column(self._time).to_pylist()
        for (key, row), time in zip(self._by_key(rows), times, strict=True):
            arrived.setdefault(key, []).append((row, time))
        left: list[tuple[Key, Any, list[Any]]] = []
        for key in {**panes, **arrived}:
            run = KeyRun(self._operator, key[0] if len(key) == 1 else key, MemoryKeyStore())
            run.advance_watermark(watermark_ms)
            run.open(panes.get(key, []))
            of_key = arrived.get(key, [])
            run.process_elements([row for row, _ in of_key], [time for _, time in of_key])
            outcome.one_by_one.extend((key, fired) for fired in run.results)
            outcome.late.extend((key, row) for row in run.late)
            left += [(key, window, contents) for window, contents in run.panes()]
        return outcome._replace(state=self.table(left, watermark_ms))

    def table(self, panes: Sequence[tuple[Key, Any, list[Any]]], watermark_ms: int) -> pa.Table:
        """Return panes in the columns of the state.  Raises FunctionError for a sum that is too large."""
        starts, ends = (np.array([window[place] for _, window, _ in panes], np.int64) for place in (0, 1))
        due = np.where(ends - 1 > watermark_ms, ends - 1, ends - 1 + self._operator.allowed_lateness)
        keys = [
            pa.array([key[place] for key, _, _ in panes], self.schema.field(name).type)
            for place, name in enumerate(self._keys)
        ]
        try:
            held = self._accumulators.of_lists([contents for _, _, contents in panes])
        except (pa.ArrowInvalid, OverflowError):
            get_result = self._operator.folding.function.get_result  # type: ignore[union-attr]
            self._check([Given(key, window, get_result(contents)) for key, window, contents in panes])
            raise
        return pa.Table.from_arrays([*keys, *map(pa.array, (starts, ends, due)), *held], schema=self.schema)

    def of_entries(self, entries: Mapping[Key, KeyEntry]) -> pa.Table:
        """Return the state of an earlier layout, which had the pickled state of each key."""
        tables = [self.schema.empty_table()]
        for key, entry in entries.items():
            store = MemoryKeyStore()
            store.write(entry.value)
            run = KeyRun(self._operator, key, store)
            panes = [(key, window, contents) for window, contents in run.panes()]
            tables.append(self.table(panes, run.watermark))
        return pa.concat_tables(tables)

    def _panes(self, state: pa.Table) -> Iterator[tuple[Key, TimeWindow, list[Any]]]:
        windows = zip(state.column(START).to_pylist(), state.column(END).to_pylist(), strict=True)
        contents_of = self._accumulators.to_lists(state)
        for key, window, contents in zip(keys_of(state, self._keys), windows, contents_of, strict=True):
            yield key, TimeWindow(*window), contents

    def _by_key(self, rows: pa.Table) -> Iterator[tuple[Key, Mapping[str, Any]]]:
        return zip(keys_of(rows, self._keys), as_mappings(rows.select(self._elements)), strict=True)


def _sessions(codes: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the number of the session of each window: windows of one key that overlap or touch are one session."""
    order = np.lexsort((starts, codes))
    of_key, begins = codes[order], starts[order]
    ranked, ranks = np.unique(ends[order], return_inverse=True)
    # The latest end so far, for each key anew: a later key has greater numbers.
    latest = np.maximum.accumulate(ranks + of_key * len(ranked)) - of_key * len(ranked)
    is_new = np.ones(len(order), bool)
    is_new[1:] = (of_key[1:] != of_key[:-1]) | (begins[1:] > ranked[latest[:-1]])
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(is_new) - 1
    return groups


def _chosen(table: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    """Return the rows that a mask has; most often it has all or none."""
    places = np.flatnonzero(mask)
    if len(places) == len(mask):
        return table
    return table.take(pa.array(places)) if len(places) else table.slice(0, 0)


def _with(table: pa.Table, name: str, values: Ints) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))
