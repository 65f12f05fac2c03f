"""The accumulators of SQL's aggregates as columns of Arrow, for many keys and windows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.windows import SqlAggregates

_GROUP = "__group"
_REDUCE = {"sum": np.add, "min": np.minimum, "max": np.maximum}
_LARGEST = float(1 << 62)
_DIGITS = 38  # of a decimal in Arrow; a longer sum would be another number, without an error


class _Part(NamedTuple):
    """A column of accumulators.

    argument: the column of rows; ``*``: none.
    """

    name: str
    argument: str
    merged: str
    counts: bool
    kind: pa.DataType


class Accumulators:
    """The columns of accumulators, each named by its place."""

    def __init__(self, aggregates: SqlAggregates, rows: pa.Schema) -> None:
        self.function = aggregates
        self._parts = [list(_parts(place, call, rows)) for place, call in enumerate(aggregates.aggregates.values())]
        self._columns = [part for parts in self._parts for part in parts]
        self.fields = [pa.field(part.name, part.kind) for part in self._columns]

    @staticmethod
    def has(aggregates: SqlAggregates, rows: pa.Schema) -> bool:
        """Return whether Arrow can keep these aggregates of rows."""
        return all(
            call.function == "count" or _is_number(kind) or (call.function in {"min", "max"} and _is_ordered(kind))
            for call in aggregates.aggregates.values()
            for kind in [None if call.argument == "*" else rows.field(call.argument).type]
        )

    def of_rows(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Return the accumulators of single rows."""
        return [self._of_rows(part, rows) for part in self._columns]

    def _of_rows(self, part: _Part, rows: pa.Table) -> pa.ChunkedArray:
        if part.argument == "*":
            return pa.chunked_array([pa.array(np.ones(rows.num_rows, np.int64))])
        values = rows.column(part.argument)
        return (pc.is_valid(values) if part.counts else values).cast(part.kind, safe=False)  # as float() rounds

    def merged(
        self, table: pa.Table, groups: npt.NDArray[np.int64], order: npt.NDArray[np.intp], begins: npt.NDArray[np.intp]
    ) -> list[pa.ChunkedArray]:
        """Return the accumulators of groups, in order of their numbers.

        table: has the accumulators, in the order in which they are added.
        groups: the number of the group of each row.
        order, begins: the places of rows by group, and where in them each group begins.
        """
        if len(begins) == len(order):
            return self.of(table.take(pa.array(order)))
        merged = {}
        for part in self._columns:
            column = table.column(part.name)
            if column.type == pa.int64() and not column.null_count:  # several times as fast as Arrow, for few rows
                merged[part.name] = pa.array(_REDUCE[part.merged].reduceat(column.to_numpy()[order], begins))
        others = [part for part in self._columns if part.name not in merged]
        if others:
            columns = [_reducible(table.column(part.name)) for part in others]
            numbered = pa.table([*columns, groups], [*(part.name for part in others), _GROUP])
            wanted = [(part.name, part.merged) for part in others]
            folded = numbered.group_by(_GROUP, use_threads=False).aggregate(wanted)
            folded = folded.take(pa.array(np.argsort(folded.column(_GROUP).to_numpy())))
            merged |= {part.name: folded.column(f"{part.name}_{part.merged}").cast(part.kind) for part in others}
        return [merged[part.name] for part in self._columns]

    def of(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """Return the accumulators of a table that has them."""
        return [table.column(part.name) for part in self._columns]

    def cleared(self, table: pa.Table, mask: npt.NDArray[np.bool_]) -> list[pa.ChunkedArray]:
        """Return the accumulators of a table, without rows where the mask says so."""
        nothing = (pa.scalar(0 if part.counts else None, part.kind) for part in self._columns)
        return [pc.if_else(pa.array(mask), *pair) for pair in zip(nothing, self.of(table), strict=True)]

    def inexact(self, table: pa.Table, codes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
        """Return for which keys ``merged`` may differ from what Python gives: a sum is large, or a value is NaN.

        codes: the number of the key of each row, less than ``count``.
        """
        found = np.zeros(count, bool)
        for part in self._columns:
            column = table.column(part.name)
            if pa.types.is_floating(column.type):
                if part.merged != "sum":
                    is_nan = pc.fill_null(pc.is_nan(column), fill_value=False)
                    found[codes[is_nan.to_numpy()]] = True
            elif part.merged == "sum" and not part.counts:
                sizes = np.abs(column.cast(pa.float64(), safe=False).fill_null(0).to_numpy())
                found |= np.bincount(codes, sizes, count) >= _largest(column.type)
        return found

    def results(self, table: pa.Table, types: Mapping[str, pa.DataType]) -> dict[str, pa.ChunkedArray]:
        """Return the results of accumulators, by name; for ``types`` see ``ProcessorSettings``."""
        results = {}
        for (name, call), parts in zip(self.function.aggregates.items(), self._parts, strict=True):
            held = [table.column(part.name) for part in parts]
            values = held[0] if call.function != "avg" else pc.divide(held[0], held[1].cast(pa.float64()))
            results[name] = values.cast(types[name])
        return results

    def to_lists(self, table: pa.Table) -> list[list[Any]]:
        """Return the accumulators as SqlAggregates has them."""
        held = []
        for parts in self._parts:
            values, *counts = (table.column(part.name).to_pylist() for part in parts)
            if counts:
                held.append([(v, n) if n else None for v, n in zip(values, counts[0], strict=True)])
            else:
                held.append([value or None for value in values] if parts[0].counts else values)
        return list(map(list, zip(*held, strict=True)))

    def of_lists(self, contents: Sequence[Sequence[Any]]) -> list[pa.Array]:
        """Return the columns of accumulators that SqlAggregates has.

        Raises ArrowInvalid or OverflowError if a sum is too large.
        """
        columns = []
        for place, parts in enumerate(self._parts):
            values = [held[place] for held in contents]
            if len(parts) > 1:
                split = [(None, 0) if value is None else value for value in values]
                pairs = [[one[number] for one in split] for number in range(2)]
            else:
                pairs = [[value or 0 for value in values] if parts[0].counts else values]
            columns += [pa.array(of_part, part.kind) for part, of_part in zip(parts, pairs, strict=True)]
        return columns


def _reducible(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of which Arrow finds the least and the greatest value of groups."""
    return column.cast(pa.int64()) if pa.types.is_duration(column.type) else column


def _parts(place: int, call: Any, rows: pa.Schema) -> list[_Part]:
    name, argument = f"__held_{place}", call.argument
    kind = None if argument == "*" else rows.field(argument).type
    count = _Part(name, argument, "sum", counts=True, kind=pa.int64())
    if call.function == "count":
        return [count]
    if call.function == "avg":
        return [_Part(name, argument, "sum", counts=False, kind=pa.float64()), count._replace(name=f"{name}_n")]
    return [_Part(name, argument, call.function, counts=False, kind=_summed(kind) if call.function == "sum" else kind)]


def _summed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(_DIGITS, kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def _largest(kind: pa.DataType) -> float:
    """Return a sum of a type of numbers that Arrow still has, and its half, too."""
    return 10.0 ** (_DIGITS - kind.scale) / 2 if pa.types.is_decimal(kind) else _LARGEST


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_string(kind))
