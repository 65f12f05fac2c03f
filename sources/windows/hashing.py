"""A hash of keys, by which pages of state are found: it stays the same with all versions of Python and Arrow."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes: TypeAlias = npt.NDArray[np.uint64]
_PRIME = np.uint64(0x100000001B3)
_NULL = np.uint64(0x9E3779B97F4A7C15)
_STEPS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))  # of splitmix64, by Steele


def hashes(columns: pa.Table) -> Hashes:
    """Return a hash for each row; rows with equal bits have equal hashes."""
    mixed = np.zeros(columns.num_rows, np.uint64)
    for column in columns.columns:
        values = column.combine_chunks()
        of_column = _mixed(_numbers(values))
        if values.null_count:
            of_column[values.is_null().to_numpy(zero_copy_only=False)] = _NULL
        mixed = _mixed(mixed ^ of_column)
    return mixed


def _mixed(numbers: Hashes) -> Hashes:
    for bits, factor in _STEPS:
        numbers = (numbers ^ (numbers >> np.uint64(bits))) * factor
    mixed: Hashes = numbers ^ (numbers >> np.uint64(31))
    return mixed


def _numbers(values: pa.Array) -> Hashes:
    kind, count = values.type, len(values)
    if pa.types.is_null(kind) or not count:
        return np.zeros(count, np.uint64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_bytes(values)
    if pa.types.is_decimal(kind):
        halves = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset : 2 * (values.offset + count)]
        low: Hashes = halves[::2].copy()
        return _mixed(low) ^ halves[1::2]
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
    elif pa.types.is_date32(kind):
        values = values.cast(pa.int32()).cast(pa.int64())
    else:
        values = values.cast(pa.int64())
    numbers: Hashes = values.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return numbers


def _of_bytes(values: pa.Array) -> Hashes:
    """Return a polynomial of the bytes of each value, and of their number."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    sizes = np.diff(offsets)
    held = values.buffers()[2]
    data = np.frombuffer(held or b"", np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    powers = np.full(int(sizes.max()) + 1, _PRIME)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    places = np.arange(len(data)) - np.repeat(offsets[:-1] - offsets[0], sizes)
    totals = np.concatenate((np.zeros(1, np.uint64), np.add.accumulate(data * powers[places])))
    ends = offsets - offsets[0]
    numbers: Hashes = totals[ends[1:]] - totals[ends[:-1]] + sizes.astype(np.uint64) * _NULL
    return numbers
