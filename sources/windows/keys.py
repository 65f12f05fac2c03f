"""Keys of windows that are equal in Python where Spark groups them together: NaN is NaN, and -0.0 is 0.0."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import isnan
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from tidegate.errors import OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.windows.rows import as_values

__all__ = ["Key", "comparable", "key_of", "key_to_bytes", "values_of"]

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


def key_to_bytes(key: Key) -> bytes:
    """Return a key as it is stored: equal keys have equal bytes, whatever the versions of Python and its packages."""
    return b"".join(map(_value_to_bytes, key))


def _value_to_bytes(value: Any) -> bytes:
    kind = _KINDS.get(type(value))
    if kind is None:
        raise OptionError(f"windows cannot keep the key {value!r}: it is a {type(value).__name__}; convert it first")
    text = kind.write(value)
    return kind.tag + len(text).to_bytes(4, "little") + text


def key_of(stored: bytes) -> Key:
    """Return the key of its bytes."""
    values, place = [], 0
    while place < len(stored):
        begin = place + 5
        end = begin + int.from_bytes(stored[place + 1 : begin], "little")
        values.append(_READ[stored[place : place + 1]](stored[begin:end]))
        place = end
    return tuple(values)


class _Kind(NamedTuple):
    tag: bytes
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


def _iso(value: Any) -> bytes:
    return str(value.isoformat()).encode()


_KINDS: Mapping[type, _Kind] = {
    str: _Kind(
        b"s", lambda value: value.encode("utf-8", "surrogatepass"), lambda text: text.decode("utf-8", "surrogatepass")
    ),
    bool: _Kind(b"t", lambda value: b"1" if value else b"", bool),
    int: _Kind(b"i", lambda value: str(value).encode(), int),
    float: _Kind(
        b"f",
        lambda value: struct.pack("<d", _NAN if isnan(value) else value + 0.0),
        lambda text: _with_one_nan(*struct.unpack("<d", text)),
    ),
    type(None): _Kind(b"n", lambda _: b"", lambda _: None),
    bytes: _Kind(b"b", bytes, bytes),
    bytearray: _Kind(b"b", bytes, bytes),
    Decimal: _Kind(b"d", lambda value: str(value).encode(), lambda text: Decimal(text.decode())),
    datetime: _Kind(b"z", _iso, lambda text: datetime.fromisoformat(text.decode())),
    date: _Kind(b"D", _iso, lambda text: date.fromisoformat(text.decode())),
    time: _Kind(b"T", _iso, lambda text: time.fromisoformat(text.decode())),
    timedelta: _Kind(
        b"w",
        lambda value: str(value // timedelta(microseconds=1)).encode(),
        lambda text: timedelta(microseconds=int(text)),
    ),
}
_READ = {kind.tag: kind.read for kind in _KINDS.values()}


def _with_one_nan(value: Any) -> Any:
    return _NAN if isinstance(value, float) and isnan(value) else value
