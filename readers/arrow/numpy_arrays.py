"""Arrow's arrays from NumPy's and back, without pandas.

``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas at their first call, which takes a third of a second in each
Python worker of Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def integers(values: npt.NDArray[Any], kind: pa.DataType, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers as an array of a type as wide as they are, which shares their memory."""
    present = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [present, pa.py_buffer(np.ascontiguousarray(values))])


def repeated(value: int, kind: pa.DataType, rows: int) -> pa.Array:
    """Return an integer, ``rows`` times.  kind: a type of integers or times, of 32 or 64 bits."""
    return integers(np.full(rows, value, f"i{kind.bit_width // 8}"), kind)


def repeated_text(value: str, rows: int) -> pa.StringArray:
    """Return a text, ``rows`` times, which together have less than 2 GiB."""
    encoded = np.frombuffer(value.encode(), np.uint8)
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(np.tile(encoded, rows))])


def int64_values(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the numbers of an array of 64 bits, which share its memory; those of nulls mean nothing."""
    if not len(array):
        return np.empty(0, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)


def are_null(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return where an array is null."""
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    present = np.unpackbits(bits, count=array.offset + len(array), bitorder="little").astype(np.bool_)
    return ~present[array.offset :]
