"""Reads the event times of a column, in milliseconds since the epoch, rounded down."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.conform import plain, plain_type
from tidegate.readers.event_time.units import TimeUnit, limit_of, number_times, text_times

DAY_MS = 86_400_000
_NS_PER = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NS_PER_MS = 10**6
_INTEGER_BITS = {"s": 32, "ms": 64, "us": 64}
_TEXTS = {pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()}


def check_time_type(column: str, kind: pa.DataType, unit: TimeUnit | None) -> None:
    """Raise OptionError, which names the column, unless values of this type are times by this unit.

    Dates, and timestamps of any unit and zone, have their own unit and take no other.  Integers and floats need s, ms,
    us or ns.  Texts need one of these, or iso8601.
    """
    kind = plain_type(kind)
    if kinds.is_null(kind):
        return
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        if unit is not None:
            raise OptionError(f"eventTimeUnit is {unit!r}, but the column {column!r} of type {kind} has its own unit")
        return
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        if unit is None or unit == "iso8601":
            clause = "is not given" if unit is None else f"is {unit!r}"
            raise OptionError(f"eventTimeUnit {clause}, but the column {column!r} of type {kind} needs s, ms, us or ns")
        return
    if kind in _TEXTS:
        if unit is None:
            raise OptionError(
                f"eventTimeUnit is not given, but the column {column!r} of type {kind} needs s, ms, us, ns or iso8601"
            )
        return
    raise OptionError(f"the column {column!r} is of type {kind}, which holds no event time")


def check_time_width(column: str, kind: pa.DataType, unit: TimeUnit | None) -> None:
    """Raise OptionError, which names the column, if a type of numbers is too narrow for event times.

    A column of an object may have such a type.  A column of the schema may not, since other times would become null, or
    would be rounded by up to a minute.
    """
    is_integer = kinds.is_integer(kind)
    if (is_integer or kinds.is_floating(kind)) and unit is not None:
        wanted = _INTEGER_BITS.get(unit, 64) if is_integer else 64
        if kind.bit_width < wanted:
            raise OptionError(
                f"the column {column!r} is of type {kind}, too narrow for event times in {unit}; "
                f"{'int' if is_integer else 'float'}{wanted} is needed"
            )


def times_ms(values: pa.Array, unit: TimeUnit | None) -> pa.Int64Array:
    """Return the times of ``values`` in milliseconds, rounded down; null for a value that is missing or not a time.

    A timestamp without a zone is UTC.  A number counts from the epoch; see text_times for texts.

    Raises OptionError if values of this type and unit are not times; see check_time_type.
    """
    check_time_type("of the event time", values.type, unit)
    values = plain(values)
    kind = values.type
    if kinds.is_null(kind):
        return pa.nulls(len(values), pa.int64())
    if unit is None:
        return _own_times(values)
    if kinds.is_uint64(kind):
        values = pc.if_else(pc.less(values, pa.scalar(2**63, kind)), values, pa.scalar(None, kind))
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return number_times(values.cast(pa.int64() if kinds.is_integer(kind) else pa.float64()), unit)
    return text_times(values if kinds.is_binary(kind) else values.cast(pa.string()), unit)


def _own_times(values: pa.Array) -> pa.Int64Array:
    kind = values.type
    missing = np.asarray(values.is_null())
    if kinds.is_date32(kind):
        days = values.view(pa.int32()).fill_null(0).to_numpy()
        return pa.array(days.astype(np.int64) * DAY_MS, mask=missing)
    numbers = values.view(pa.int64()).fill_null(0).to_numpy()
    per = _NS_PER["ms" if kinds.is_date64(kind) else kind.unit]
    if per <= _NS_PER_MS:
        return pa.array(numbers // (_NS_PER_MS // per), mask=missing)
    limit = limit_of("s") * 1000  # times below this limit fit into an int64 in milliseconds
    beyond = (numbers >= limit) | (numbers <= -limit)
    return pa.array(np.where(beyond, 0, numbers) * (per // _NS_PER_MS), mask=missing | beyond)
