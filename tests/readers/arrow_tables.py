"""Hypothesis strategies: Arrow fields of every type that Parquet and Spark share, and arrays of them."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_PRIMITIVE = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3), pa.date32(),
    pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    pa.decimal128(5, 2), pa.decimal128(38, 0),
]  # fmt: skip


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([(f"f{index}", kind) for index, kind in enumerate(kinds)])
    )
    return inner.map(pa.list_) | inner.map(pa.large_list) | structs | inner.map(lambda kind: pa.map_(pa.string(), kind))


types = st.recursive(st.sampled_from(_PRIMITIVE), _nested, max_leaves=4)


def fields() -> st.SearchStrategy[pa.Field]:
    """Fields called ``c``."""
    return types.map(lambda kind: pa.field("c", kind))


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, or None."""
    return st.none() | _values(kind)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    is_ = pa.types
    if is_.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if is_.is_map(kind):
        return st.dictionaries(_values(kind.key_type), values(kind.item_type), max_size=3).map(lambda made: [*made.items()])
    if is_.is_nested(kind):
        return st.lists(values(kind.value_type), max_size=3)
    if is_.is_boolean(kind):
        return st.booleans()
    if is_.is_integer(kind):
        signed = is_.is_signed_integer(kind)
        bits = kind.bit_width - signed
        return st.integers(-(2**bits) if signed else 0, 2**bits - 1)
    if is_.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False)
    if is_.is_decimal(kind):
        return st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1).map(
            lambda number: _decimal(number, kind.scale)
        )
    if is_.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if is_.is_binary(kind):
        return st.binary(max_size=5)
    if is_.is_date(kind):
        return st.dates(date(1, 1, 1), date(9999, 12, 31))
    if is_.is_timestamp(kind):
        zone = None if kind.tz is None else timezone.utc
        moments = st.datetimes(datetime(1902, 1, 1), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is added
        return moments.map(lambda moment: _rounded(moment, kind.unit).replace(tzinfo=zone))
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _decimal(number: int, scale: int) -> Any:
    from decimal import Context, Decimal

    return Decimal(number).scaleb(-scale, Context(prec=38))


def _rounded(moment: datetime, unit: str) -> datetime:
    step = {"s": 10**6, "ms": 10**3}.get(unit, 1)
    return moment.replace(microsecond=moment.microsecond // step * step)


def arrays(kind: pa.DataType, rows: int | None = None) -> st.SearchStrategy[pa.Array]:
    """Arrays of a type, of a number of rows or of a few."""
    sizes = {"max_size": 6} if rows is None else {"min_size": rows, "max_size": rows}
    return st.lists(values(kind), **sizes).map(lambda made: pa.array(made, kind))
