"""The rows of one key's batch: Arrow columns, or mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Places", "Rows", "RowsReader", "Times"]

Places: TypeAlias = npt.NDArray[np.intp]
Times: TypeAlias = npt.NDArray[np.int64]


class RowsReader:
    """A part of windows that may read rows: a trigger, an assigner or an evictor."""

    reads_rows: bool = True
    """Whether it reads columns of rows.  A subclass does, unless it says that it does not."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "reads_rows" not in vars(cls):
            cls.reads_rows = True


class Rows:
    """Rows as an Arrow batch or table, or as a sequence of mappings; mappings are made of columns only where needed."""

    def __init__(
        self, held: pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]], places: Places | None = None
    ) -> None:
        self._held, self._places = held, places

    def __len__(self) -> int:
        return len(self._held) if self._places is None else len(self._places)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        if isinstance(self._held, pa.RecordBatch | pa.Table):
            chosen = self._held if self._places is None else self._held.take(pa.array(self._places))
            return iter(chosen.to_pylist())
        return iter(self._held) if self._places is None else (self._held[place] for place in self._places)

    def take(self, places: Places | None) -> Rows:
        """Return the rows at these places of all rows; None: all of them."""
        return Rows(self._held, places)

    def column(self, name: str) -> npt.NDArray[Any] | list[Any]:
        """Return the values of a column.

        An array of integers or floating point numbers, where none is missing; else a list, with None where one is.
        """
        if not isinstance(self._held, pa.RecordBatch | pa.Table):
            return [row[name] for row in self]
        column = self._held.column(name)
        if column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            values: npt.NDArray[Any] = column.to_numpy()
            return values if self._places is None else values[self._places]
        chosen = column if self._places is None else column.take(pa.array(self._places))
        listed: list[Any] = chosen.to_pylist()
        return listed
