"""Keys of windows that are equal in Python where Spark groups them together: NaN is NaN, and -0.0 is 0.0.

Pages of state are found by a hash of the key, which stays the same with all versions of Python and Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import timezone
from hashlib import blake2b
from math import isnan
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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


Hashes: TypeAlias = npt.NDArray[np.uint64]
_WORD, _LONG = 8, 256  # bytes
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
    """Return a hash of the bytes of each value, and of their number."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    begins, sizes = offsets[:-1], np.diff(offsets)
    numbers: Hashes = sizes.astype(np.uint64) * _NULL
    held = np.frombuffer((values.buffers()[2] or b"")[offsets[0] : offsets[-1]], np.uint8)
    padded = np.concatenate((held, np.zeros(_WORD, np.uint8)))
    words = np.ndarray(len(held) + 1, "<u8", padded, strides=(1,))  # one begins at each byte
    for begin in range(0, min(int(sizes.max()), _LONG), _WORD):
        at = np.flatnonzero((sizes > begin) & (sizes <= _LONG))
        unused = np.maximum(begin + _WORD - sizes[at], 0).astype(np.uint64) * np.uint64(8)
        word = words[begins[at] - offsets[0] + begin] << unused
        numbers[at] = _mixed(numbers[at] ^ word)
    for at in np.flatnonzero(sizes > _LONG).tolist():
        digest = blake2b(values[at].as_buffer(), digest_size=_WORD).digest()
        numbers[at] = np.frombuffer(digest, "<u8")[0]
    return numbers
