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


class _Held(NamedTuple):
    """A column of accumulators of one aggregate: sum, min or max of a column of rows."""

    name: str
    function: str
    argument: str
    kind: pa.DataType


class Accumulators:
    """The columns of accumulators, each named by its place."""

    def __init__(self, aggregates: SqlAggregates, rows: pa.Schema) -> None:
        self.function = aggregates
        self._columns = [
            _Held(f"__held_{place}", *call, _kept(call.function, rows.field(call.argument).type))
            for place, call in enumerate(aggregates.aggregates.values())
        ]
        self.fields = [pa.field(column.name, column.kind) for column in self._columns]

    @staticmethod
    def has(aggregates: SqlAggregates, rows: pa.Schema) -> bool:
        """Return whether Arrow can keep these aggregates of rows."""
        calls = aggregates.aggregates.values()
        return all(keeps(call.function, rows.field(call.argument).type) for call in calls)

    def of_rows(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Return the accumulators of single rows."""
        return [rows.column(held.argument).cast(held.kind, safe=False) for held in self._columns]  # as float() rounds

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
        for held in self._columns:
            column = table.column(held.name)
            if column.type == pa.int64() and not column.null_count:  # several times as fast as Arrow, for few rows
                merged[held.name] = pa.array(_REDUCE[held.function].reduceat(column.to_numpy()[order], begins))
        others = [held for held in self._columns if held.name not in merged]
        if others:
            columns = [_reducible(table.column(held.name)) for held in others]
            numbered = pa.table([*columns, groups], [*(held.name for held in others), _GROUP])
            wanted = [(held.name, held.function) for held in others]
            folded = numbered.group_by(_GROUP, use_threads=False).aggregate(wanted)
            folded = folded.take(pa.array(np.argsort(folded.column(_GROUP).to_numpy())))
            merged |= {held.name: folded.column(f"{held.name}_{held.function}").cast(held.kind) for held in others}
        return [merged[held.name] for held in self._columns]

    def of(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """Return the accumulators of a table that has them."""
        return [table.column(held.name) for held in self._columns]

    def cleared(self, table: pa.Table, mask: npt.NDArray[np.bool_]) -> list[pa.ChunkedArray]:
        """Return the accumulators of a table, without rows where the mask says so."""
        return [pc.if_else(pa.array(mask), pa.scalar(None, column.type), column) for column in self.of(table)]

    def inexact(self, table: pa.Table, codes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
        """Return for which keys ``merged`` may differ from what Python gives: a sum is large, or a value is NaN.

        codes: the number of the key of each row, less than ``count``.
        """
        found = np.zeros(count, bool)
        for held in self._columns:
            column = table.column(held.name)
            if pa.types.is_floating(column.type):
                if held.function != "sum":
                    is_nan = pc.fill_null(pc.is_nan(column), fill_value=False)
                    found[codes[is_nan.to_numpy()]] = True
            elif held.function == "sum":
                sizes = np.abs(column.cast(pa.float64(), safe=False).fill_null(0).to_numpy())
                if len(sizes) and float(sizes.max()) * len(sizes) >= _largest(column.type):
                    found |= np.bincount(codes, sizes, count) >= _largest(column.type)
        return found

    def results(self, table: pa.Table, types: Mapping[str, pa.DataType]) -> dict[str, pa.ChunkedArray]:
        """Return the results of accumulators, by name; for ``types`` see ``ProcessorSettings``."""
        columns = zip(self.function.aggregates, self.of(table), strict=True)
        return {name: column.cast(types[name]) for name, column in columns}

    def to_lists(self, table: pa.Table) -> list[list[Any]]:
        """Return the accumulators as SqlAggregates has them."""
        return list(map(list, zip(*(column.to_pylist() for column in self.of(table)), strict=True)))

    def of_lists(self, contents: Sequence[Sequence[Any]]) -> list[pa.Array]:
        """Return the columns of accumulators that SqlAggregates has.

        Raises ArrowInvalid or OverflowError if a sum is too large.
        """
        return [pa.array([values[place] for values in contents], held.kind) for place, held in enumerate(self._columns)]


def keeps(function: str, kind: pa.DataType) -> bool:
    """Return whether Arrow can keep an aggregate of values of a type: sum, min or max."""
    return _is_number(kind) or (function != "sum" and _is_ordered(kind))


def _reducible(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of which Arrow finds the least and the greatest value of groups."""
    return column.cast(pa.int64()) if pa.types.is_duration(column.type) else column


def _kept(function: str, kind: pa.DataType) -> pa.DataType:
    if function != "sum":
        return kind
    if pa.types.is_decimal(kind):
        return pa.decimal128(_DIGITS, kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def _largest(kind: pa.DataType) -> float:
    """Return a sum of a type of numbers that Arrow still has, and half of it."""
    return 10.0 ** (_DIGITS - kind.scale) / 2 if pa.types.is_decimal(kind) else _LARGEST


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_string(kind))
