"""Keys of windows that are equal in Python where Spark groups them together: NaN is NaN, and -0.0 is 0.0."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import timezone
from math import isnan
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.windows.rows import as_values

Key: TypeAlias = tuple[Any, ...]
_NAN = float("nan")
"""The one object that stands for NaN in keys: Python finds it equal to itself, and to no other NaN."""


def comparable(table: pa.Table, names: Collection[str]) -> pa.Table:
    """Return a table in which equal floats of these columns have the same bits."""
    for name in names:
        positive = pc.add(table.column(name), pa.scalar(0.0, table.column(name).type))
        same = pc.if_else(pc.is_nan(positive), pa.scalar(_NAN, positive.type), positive)
        table = table.set_column(table.column_names.index(name), name, same)
    return table


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column of keys, in which NaN is one object, and all times have the same time zone.

    PyArrow takes its time zones from pytz or zoneinfo, as other packages and its version demand.  Then the bytes of a
    pickled key would change with an upgrade, and stored rows are found by these bytes.

    Raises as ``as_values`` does.
    """
    values = as_values(column)
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return [None if time is None else time.astimezone(timezone.utc) for time in values]
    return list(map(_with_one_nan, values)) if pa.types.is_floating(column.type) else values


def keys_of(table: pa.Table, names: Collection[str]) -> Iterator[Key]:
    """Return the key of each row, in columns of these names."""
    return zip(*(values_of(table.column(name)) for name in names), strict=True)


def codes_of(columns: Iterable[pa.ChunkedArray]) -> npt.NDArray[np.int64]:
    """Return a number for each row of columns of keys; rows with equal keys have equal numbers."""
    codes: Any = None
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        of_column = encoded.indices.to_numpy().astype(np.int64)
        if codes is None:
            codes = of_column
        else:
            codes = np.unique(codes * len(encoded.dictionary) + of_column, return_inverse=True)[1]
    return np.asarray(codes)


def _with_one_nan(value: Any) -> Any:
    return _NAN if isinstance(value, float) and isnan(value) else value
