"""SQL's aggregates over columns that merge: sum, min and max, with Spark's rules for nulls and NaN."""

from __future__ import annotations

import decimal
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.errors import OptionError, did_you_mean
from tidegate.windows.functions.results import AggregateFunction
from tidegate.windows.rows import Rows

CALL = re.compile(r"\s*(\w+)\s*\(\s*(\w+)\s*\)\s*")
LARGEST = 2**62
"""A sum of integers is made in 64 bits as long as it stays below this."""

EXACT = decimal.Context(prec=76)
"""Keeps every digit of a sum of decimals.  Spark's decimals have 38 digits; Python by itself would round to 28."""


class _Fold(ABC):
    """One aggregate over the values of a column that are not null."""

    @abstractmethod
    def add(self, held: Any, value: Any) -> Any:
        """Return the accumulator after one more value or accumulator; ``held`` is None before the first."""

    @abstractmethod
    def add_array(self, held: Any, values: npt.NDArray[Any]) -> Any:
        """Return the accumulator after an array of numbers, as if they were added one by one."""


class _Sum(_Fold):
    def add(self, held: Any, value: Any) -> Any:
        return value if held is None else held + value

    def add_array(self, held: Any, values: npt.NDArray[Any]) -> Any:
        if values.dtype.kind == "f":
            # One after the other: NumPy's sum adds in pairs, which rounds differently.
            parts = values if held is None else np.concatenate(([held], values))
            with np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN are results, as in Spark
                return float(np.add.accumulate(parts, dtype=np.float64)[-1])
        bound = max(-int(values.min()), int(values.max()))
        total = int(values.sum(dtype=np.int64)) if bound < LARGEST // len(values) else sum(values.tolist())
        return total if held is None else held + total


class _Min(_Fold):
    def add(self, held: Any, value: Any) -> Any:
        return value if held is None or _order(value) < _order(held) else held

    def add_array(self, held: Any, values: npt.NDArray[Any]) -> Any:
        return self.add(held, np.fmin.reduce(values).item())


class _Max(_Fold):
    def add(self, held: Any, value: Any) -> Any:
        return value if held is None or _order(value) > _order(held) else held

    def add_array(self, held: Any, values: npt.NDArray[Any]) -> Any:
        return self.add(held, values.max().item())


def _order(value: Any) -> tuple[bool, Any]:
    """Return the sort key of a value: in Spark NaN is greater than all other values."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


FOLDS: dict[str, _Fold] = {"max": _Max(), "min": _Min(), "sum": _Sum()}


class SqlAggregate(NamedTuple):
    """One aggregate: ``sum(amount)`` has the function ``sum`` and the argument ``amount``."""

    function: str
    argument: str

    @classmethod
    def parse(cls, text: str) -> SqlAggregate:
        """Return the aggregate of a text.

        Raises OptionError if the text does not call sum, min or max.
        """
        call = CALL.fullmatch(text)
        name = call[1].lower() if call else ""
        if call is None or name not in FOLDS:
            raise OptionError(
                f"{text!r} must be sum, min or max of a column{did_you_mean(call[1], FOLDS) if call else ''}."
            )
        return cls(name, call[2])


class SqlAggregates(AggregateFunction):
    """Aggregates by the names of their result columns: ``SqlAggregates(total="sum(amount)", last="max(at)")``.

    Arguments are names of columns.  Nulls do not count, and without values an aggregate is null.  A row may stand for
    several rows if it has their aggregates: a count is a sum of ones.
    """

    def __init__(self, **aggregates: str) -> None:
        self.aggregates = {name: SqlAggregate.parse(text) for name, text in aggregates.items()}
        self._parts = [(FOLDS[call.function], call.argument) for call in self.aggregates.values()]

    def create_accumulator(self) -> list[Any]:
        """Return the accumulators of no rows."""
        return [None] * len(self._parts)

    def add(self, value: Mapping[str, Any], accumulator: list[Any]) -> list[Any]:
        """Return the accumulators after one more row."""
        with decimal.localcontext(EXACT):
            return [
                held if value[argument] is None else fold.add(held, value[argument])
                for (fold, argument), held in zip(self._parts, accumulator, strict=True)
            ]

    def add_all(self, rows: Rows, accumulator: list[Any]) -> list[Any]:
        """Return the accumulators after more rows."""
        with decimal.localcontext(EXACT):
            return [
                _add_column(fold, held, rows.column(argument))
                for (fold, argument), held in zip(self._parts, accumulator, strict=True)
            ]

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        """Return the accumulators of two windows as one."""
        with decimal.localcontext(EXACT):
            return [
                one if other is None else fold.add(one, other)
                for (fold, _), one, other in zip(self._parts, acc_a, acc_b, strict=True)
            ]

    def get_result(self, accumulator: list[Any]) -> dict[str, Any]:
        """Return the aggregates by the names of their result columns."""
        return dict(zip(self.aggregates, accumulator, strict=True))


def _add_column(fold: _Fold, held: Any, values: npt.NDArray[Any] | list[Any]) -> Any:
    if isinstance(values, np.ndarray):
        return fold.add_array(held, values) if len(values) else held
    for value in values:
        if value is not None:
            held = fold.add(held, value)
    return held
