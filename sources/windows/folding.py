"""SQL aggregates of many keys and windows at once, by Arrow.

The rows of a bucket are folded before the operator sees them.  The operator then takes one value for each key and
window of a batch.  That is exact if no row can make its window fire: the window is still open, and its trigger takes
all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.sources.windows.keys import Key, values_of
from tidegate.windows import (
    Aggregate,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SqlAggregates,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowOperator,
    WindowStagger,
)
from tidegate.windows.rows import as_values

__all__ = ["Folded", "fold", "folds"]

_START, _ALL = "__start", "count_all"
_ARROW = {"count": ("count",), "sum": ("sum",), "min": ("min",), "max": ("max",), "avg": ("sum", "count")}
_LARGEST = Decimal(1 << 62)
_DIGITS = 38  # of a decimal in Arrow; a longer sum would be another number, without an error
_TAKE_ALL = {
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
}
"""Triggers that take all rows of an open window at once."""


class Folded(NamedTuple):
    """The rows of one window of one key.

    first: the event time of the row that came first, in ms.
    contents: the accumulators of SqlAggregates.
    """

    window: TimeWindow
    first: int
    contents: list[Any]


def folds(operator: WindowOperator) -> bool:
    """Return whether rows of windows that are open can be folded before the operator sees them."""
    assigner, function, trigger = operator.assigner, operator.folding, operator.trigger
    while type(trigger) is PurgingTrigger:
        trigger = trigger.nested
    if type(assigner) is SlidingEventTimeWindows:
        # Some rows of an open window may be folded and others not, so their order must not matter.
        takes_all = trigger.stateless
    else:
        takes_all = type(assigner) is TumblingEventTimeWindows and assigner.stagger is WindowStagger.ALIGNED
    is_sql = isinstance(function, Aggregate) and isinstance(function.function, SqlAggregates)
    return takes_all and type(trigger) in _TAKE_ALL and is_sql


def fold(
    operator: WindowOperator, table: pa.Table, keys: Sequence[str], time: str, watermark_ms: int
) -> tuple[dict[Key, list[Folded]], pa.Table]:
    """Return the folded rows by key, and the rows that are also in windows that are no longer open.

    table: rows of any number of keys.
    time: the column of event times in ms.
    """
    assigner: Any = operator.assigner
    aggregates: SqlAggregates = operator.folding.function  # type: ignore[union-attr]
    if not _is_exact(table, aggregates):
        return {}, table
    size = assigner.size
    slide = getattr(assigner, "slide", size)
    times = table.column(time).to_numpy()
    last = times - (times - assigner.offset) % slide
    # A row is folded into all its windows, or into none.
    first = last - (last - times + size - 1) // slide * slide
    is_in_a_window = last + size > times  # a slide that is longer than the size leaves gaps
    is_open = is_in_a_window & (first + size - 1 > watermark_ms)
    rest = table.filter(pa.array(~is_open))
    if not is_open.any():
        return {}, rest
    chosen, times, last = table.filter(pa.array(is_open)), times[is_open], last[is_open]
    folded: dict[Key, list[Folded]] = {}
    for start in (last - back for back in range(0, size, slide)):
        holds = start + size > times
        part, starts = (chosen, start) if holds.all() else (chosen.filter(pa.array(holds)), start[holds])
        if part.num_rows:
            _add_groups(folded, _grouped(part, starts, [*keys], time, aggregates), len(keys), size)
    return folded, rest


def _grouped(
    table: pa.Table, starts: npt.NDArray[np.int64], keys: list[str], time: str, aggregates: SqlAggregates
) -> list[tuple[Any, ...]]:
    """Return for each key and window: the key, the window's start, the first time, and the accumulators."""
    asked = dict.fromkeys(
        (call.argument, name) for call in aggregates.aggregates.values() for name in _ARROW[call.function]
    )
    grouped = (
        table.append_column(_START, pa.array(starts))
        .group_by([*keys, _START], use_threads=False)
        .aggregate(
            [(time, "first"), *(([], _ALL) if argument == "*" else (argument, name) for argument, name in asked)]
        )
    )
    columns = {pair: as_values(grouped.column(_ALL if pair[0] == "*" else "_".join(pair))) for pair in asked}
    held = [
        _held(call.function, *(columns[call.argument, name] for name in _ARROW[call.function]))
        for call in aggregates.aggregates.values()
    ]
    by = [values_of(grouped.column(name)) for name in keys]
    by += [grouped.column(name).to_pylist() for name in (_START, f"{time}_first")]
    return list(zip(*by, map(list, zip(*held, strict=True)), strict=True))


def _held(function: str, values: list[Any], counts: Sequence[int] = ()) -> list[Any]:
    """Return the accumulators of SqlAggregates for results of Arrow; None: no value."""
    if function == "count":
        return [count or None for count in values]
    if function == "avg":
        averaged = zip(values, counts, strict=True)
        return [(float(v) if isinstance(v, int) else v, count) if count else None for v, count in averaged]
    return values


def _add_groups(folded: dict[Key, list[Folded]], groups: list[tuple[Any, ...]], keys: int, size: int) -> None:
    for group in groups:
        start, first, contents = group[keys:]
        folded.setdefault(group[:keys], []).append(Folded(TimeWindow(start, start + size), first, contents))


def _is_exact(table: pa.Table, aggregates: SqlAggregates) -> bool:
    """Return whether Arrow's results equal the operator's: no sum is too large, and no value is NaN."""
    for call in aggregates.aggregates.values():
        if call.argument == "*" or call.function == "count":
            continue
        column = table.column(call.argument)
        if pa.types.is_floating(column.type):
            if pc.any(pc.is_nan(column)).as_py():
                return False
        elif pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
            bounds = pc.min_max(column).as_py()
            if max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)) * table.num_rows > _largest(column.type):
                return False
        elif call.function in {"sum", "avg"} or not _is_ordered(column.type):
            return False
    return True


def _largest(kind: pa.DataType) -> Decimal:
    """Return a sum of a type of numbers that Arrow still has."""
    return Decimal(10) ** (_DIGITS - kind.scale) if pa.types.is_decimal(kind) else _LARGEST


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_string(kind))
