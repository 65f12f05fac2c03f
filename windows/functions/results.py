"""Functions that make results of rows, and the ways in which a window calls them: by an aggregation, or for all rows.

Those of users have the names of Flink's Python API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tidegate.errors import OptionError
from tidegate.windows.contexts import ProcessWindowContext
from tidegate.windows.rows import Rows


class AggregateFunction(ABC):
    """Aggregates the rows of a window one by one, so that the window keeps only an accumulator.

    Accumulators must be picklable.  A method may change the accumulator that it takes.  In windows that
    merge, rows may come in any order.
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return the accumulator of no rows."""

    @abstractmethod
    def add(self, value: Mapping[str, Any], accumulator: Any) -> Any:
        """Return the accumulator with one more row."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result of an accumulator: a mapping of column names to values."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return one accumulator for two.  Session windows need it."""
        raise OptionError(f"{type(self).__name__} needs merge, because its windows merge.")

    def add_all(self, rows: Rows, accumulator: Any) -> Any:
        """Return the accumulator with more rows, as if each were added."""
        for row in rows:
            accumulator = self.add(row, accumulator)
        return accumulator


class ProcessWindowFunction(ABC):
    """Makes results from all rows of a window at once."""

    @abstractmethod
    def process(self, key: Any, context: ProcessWindowContext, elements: Sequence[Any]) -> Iterable[Any]:
        """Return the results of a window: mappings of column names to values.

        elements: the rows in order of arrival; behind an aggregation or a reduction, its one result.
        """

    def clear(self, context: ProcessWindowContext) -> None:  # noqa: B027 - most functions keep no state
        """Remove the state of a window that goes."""


class WindowFunction(ABC):
    """Makes the results of a window, perhaps by a process function."""

    def __init__(self, process: ProcessWindowFunction | None) -> None:
        self.process = process

    @abstractmethod
    def fire(self, key: Any, context: ProcessWindowContext, rows: Sequence[Mapping[str, Any]]) -> Iterable[Any]:
        """Return the results of a window from all its rows; an evictor may have removed all of them."""

    def clear(self, context: ProcessWindowContext) -> None:
        """Remove the state of a window that goes."""
        if self.process is not None:
            self.process.clear(context)


class Process(WindowFunction):
    """A process function over all rows."""

    def __init__(self, process: ProcessWindowFunction) -> None:
        super().__init__(process)
        self._process = process

    def fire(self, key: Any, context: ProcessWindowContext, rows: Sequence[Mapping[str, Any]]) -> Iterable[Any]:
        """Return the results of the process function."""
        return self._process.process(key, context, rows)


class Aggregate(WindowFunction):
    """Folds rows into an accumulator as they arrive, so that a window without an evictor keeps no rows.

    A process function may follow, and sees the one result.
    """

    def __init__(self, function: AggregateFunction, process: ProcessWindowFunction | None = None) -> None:
        super().__init__(process)
        self.function = function

    def add(self, held: Any, row: Mapping[str, Any]) -> Any:
        """Return the accumulator with one more row; held is None before the first."""
        return self.function.add(row, self.function.create_accumulator() if held is None else held)

    def add_all(self, held: Any, rows: Rows) -> Any:
        """Return the accumulator with more rows, as if each were added."""
        return self.function.add_all(rows, self.function.create_accumulator() if held is None else held)

    def merge(self, held: Any, other: Any) -> Any:
        """Return the accumulator of two windows that become one."""
        return self.function.merge(held, other)

    def can_merge(self) -> bool:
        """Return whether the aggregate function has a ``merge``."""
        return type(self.function).merge is not AggregateFunction.merge

    def fire_folded(self, key: Any, context: ProcessWindowContext, held: Any) -> Iterable[Any]:
        """Return the results of a window from its accumulator."""
        result = self.function.get_result(held)
        return [result] if self.process is None else self.process.process(key, context, [result])

    def fire(self, key: Any, context: ProcessWindowContext, rows: Sequence[Mapping[str, Any]]) -> Iterable[Any]:
        """Return the results of a window whose rows are kept for an evictor."""
        return self.fire_folded(key, context, self.add_all(None, Rows(rows)))


class Reduce(Aggregate):
    """A reduction of two rows to one.  A process function may follow, and sees the row that is left.

    In windows that merge, rows may come in any order.
    """

    def __init__(
        self,
        function: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]],
        process: ProcessWindowFunction | None = None,
    ) -> None:
        super().__init__(_Reduction(function), process)

    def fire(self, key: Any, context: ProcessWindowContext, rows: Sequence[Mapping[str, Any]]) -> Iterable[Any]:
        """Return the reduced row, or no result without rows."""
        return super().fire(key, context, rows) if rows else []


class _Reduction(AggregateFunction):
    """An aggregation whose accumulator is the reduced row."""

    def __init__(self, function: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self._function = function

    def create_accumulator(self) -> None:
        return None

    def add(self, value: Mapping[str, Any], accumulator: Any) -> Any:
        return value if accumulator is None else self._function(accumulator, value)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self._function(acc_a, acc_b)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator
