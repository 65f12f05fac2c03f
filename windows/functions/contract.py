"""The functions of windows: they make results of rows, under the names of Flink's Python API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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
