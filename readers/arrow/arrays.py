"""Arrow's arrays from NumPy's and back, without pandas; and the sizes of batches.

``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas at their first call, which takes a third of a second in each
Python worker of Spark.

Small batches are merged, because each has a fixed cost, and large ones are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    encoded = value.encode()
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(encoded * rows)])


def one_text(value: bytes) -> pa.BinaryScalar:
    """Return bytes as a scalar."""
    ends = np.array([0, len(value)], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(value)])[0]


def int64_values(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the numbers of an array of 64 bits, which share its memory; those of nulls mean nothing."""
    if not len(array):
        return np.empty(0, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)


def ends_of(texts: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return where texts or bytes end in their buffer, after the begin of the first one."""
    ends = texts.buffers()[1]
    return np.frombuffer(ends, np.int32, len(texts) + 1, 4 * texts.offset) if len(texts) else np.zeros(1, np.int32)


def booleans(values: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Return truth values as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def are_true(array: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return where an array is true, and neither false nor null."""
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    values = np.unpackbits(bits, count=array.offset + len(array), bitorder="little").astype(np.bool_)
    return values[array.offset :] & ~are_null(array)


def are_null(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return where an array is null."""
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    present = np.unpackbits(bits, count=array.offset + len(array), bitorder="little").astype(np.bool_)
    return ~present[array.offset :]


BATCH_BYTES = 8 << 20
"""The maximum size of a batch, unless a single row is larger."""

MOST_ROWS = 16_384
"""The number of rows that are decoded at once: a dictionary of texts may hide the size of a row."""

ENOUGH_BYTES = 1 << 20
"""From this size on, a batch takes far longer to make than to pass to Spark (0.3 ms)."""


def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order; small batches are merged until they have ENOUGH_BYTES."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= ENOUGH_BYTES:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    whole: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def within_bounds(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of at most BATCH_BYTES each, or of one row."""
    # get_total_buffer_size is faster than nbytes, and never less.
    if batch.num_rows <= 1 or batch.get_total_buffer_size() <= BATCH_BYTES or batch.nbytes <= BATCH_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from within_bounds(batch.slice(0, half))
    yield from within_bounds(batch.slice(half))


def null_bytes(kind: pa.DataType) -> int:
    """Return the size of a null, with a byte for its validity."""
    if pa.types.is_struct(kind):
        return 1 + sum(null_bytes(field.type) for field in kind)
    return 1 + (kind.bit_width // 8 if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else 4)
