"""The rows of one key's batch: Arrow columns, or mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import OptionError

Places: TypeAlias = npt.NDArray[np.intp]
Times: TypeAlias = npt.NDArray[np.int64]


class RowsReader:
    """A part of windows that may read rows: a trigger, an assigner or an evictor."""

    reads_rows: bool = True
    """Whether the part reads columns of rows."""

    uninherited: ClassVar[Mapping[str, bool]] = {"reads_rows": True}
    """What holds of a subclass unless it says otherwise itself: its methods may need more than those of its base."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, value in cls.uninherited.items():
            if name not in vars(cls):
                setattr(cls, name, value)


class Rows:
    """Rows as an Arrow batch or table, or as a sequence of mappings; columns become mappings only where needed."""

    def __init__(
        self, held: pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]], places: Places | None = None
    ) -> None:
        self._held, self._places = held, places

    def __len__(self) -> int:
        return len(self._held) if self._places is None else len(self._places)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        if isinstance(self._held, pa.RecordBatch | pa.Table):
            chosen = self._held if self._places is None else self._held.take(pa.array(self._places))
            return iter(as_mappings(chosen))
        return iter(self._held) if self._places is None else (self._held[place] for place in self._places)

    def take(self, places: Places | None) -> Rows:
        """Return the rows at these places of all rows; None: all of them."""
        return Rows(self._held, places)

    def column(self, name: str) -> npt.NDArray[Any] | list[Any]:
        """Return the values of a column.

        Integers and floating point numbers are an array if none is null; all other values are a list, with None
        for null.
        """
        if not isinstance(self._held, pa.RecordBatch | pa.Table):
            return [row[name] for row in self]
        column = self._held.column(name)
        if column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            values: npt.NDArray[Any] = column.to_numpy()
            return values if self._places is None else values[self._places]
        chosen = column if self._places is None else column.take(pa.array(self._places))
        return as_values(chosen)


def as_mappings(columns: pa.RecordBatch | pa.Table) -> list[Mapping[str, Any]]:
    """Return the rows of columns as mappings, in which maps are dicts, as in Spark.  Raises as ``as_values`` does."""
    if any(_holds_map(field.type) for field in columns.schema):
        return as_values(columns, maps_as_pydicts="strict")
    return as_values(columns)  # three times as fast


def as_values(column: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table, **options: Any) -> list[Any]:
    """Return the values of a column, or the rows of several, as Python's objects.

    Raises OptionError for a value that Python does not have: a time after the year 9999, or a map with a doubled key.
    """
    try:
        values: list[Any] = column.to_pylist(**options)
    except pa.ArrowException:
        raise
    except (ValueError, OverflowError, KeyError) as error:
        raise OptionError(
            f"windows cannot give Python a value of their rows: {error}; convert it in a step before the "
            "windows, such as a time beyond the years 1 to 9999 by unix_millis()"
        ) from error
    return values


def listed(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as ``as_values`` does; numbers ten times as fast."""
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not is_number or column.null_count:
        return as_values(column)
    values: list[Any] = column.to_numpy().tolist()
    return values


def _holds_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_holds_map(kind.field(place).type) for place in range(kind.num_fields))
