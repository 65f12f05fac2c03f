"""Converts schemas to those that Spark expects, and batches to exactly such a schema.

Both follow Spark's own Parquet reader (ParquetSchemaConverter, ParquetVectorUpdaterFactory).  Every column is nullable,
and unsigned integers become the next wider type.  A timestamp with a zone is an instant, and one without is a
TimestampNTZ.  Nanoseconds, which Spark refuses, are rounded down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import BadRecordError, CorruptDataError, OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.text_values import decimals, microseconds_of

MOST_DIGITS = 38  # the maximum precision of a Spark decimal
MOST_LEVELS = 64  # the maximum number of nested levels of a type in Arrow's messages

_TYPES = {
    **{kind: kind for kind in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())},
    **{kind: kind for kind in (pa.string(), pa.binary(), pa.date32(), pa.null())},
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_LISTS: Sequence[Callable[[pa.DataType], bool]] = (
    kinds.is_list,
    kinds.is_large_list,
    kinds.is_fixed_size_list,
    kinds.is_list_view,
    kinds.is_large_list_view,
)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema that Spark's Parquet reader gives the columns of a file, in Arrow's types.

    PySpark's ``from_arrow_schema`` takes it.  Metadata is left out.

    Raises OptionError, which names the column, for a type that Spark cannot hold (time, duration, float16, decimals
    beyond 38 digits, unions).  Also raises it for two columns that differ only in case, which are one column to Spark.
    """
    check_levels(schema)
    return pa.schema(_spark_fields(schema, ""))


def check_levels(schema: pa.Schema) -> None:
    """Raise OptionError for a column with more nested levels than Arrow's messages can hold."""
    for field in schema:
        level, inner = 0, [field.type]
        while inner:
            level += 1
            inner = [kind.field(index).type for kind in inner for index in range(kind.num_fields)]
        if level > MOST_LEVELS:
            raise OptionError(
                f"the column {field.name!r} is nested {level} levels deep, and Spark can get at most {MOST_LEVELS}: "
                "give a schema without it"
            )


def _spark_fields(fields: Sequence[pa.Field], parent: str) -> list[pa.Field]:
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.get(field.name.lower())
        if other is not None:
            raise OptionError(f"the columns {parent + other!r} and {parent + field.name!r} are the same to Spark")
        seen[field.name.lower()] = field.name
    return [pa.field(field.name, _spark_type(field.type, parent + field.name)) for field in fields]


def _spark_type(kind: pa.DataType, path: str) -> pa.DataType:
    kind = plain_type(kind)
    simple = pa.binary() if kinds.is_fixed_size_binary(kind) else _TYPES.get(kind)
    if simple is not None:
        return simple
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if kinds.is_decimal(kind) and kind.precision <= MOST_DIGITS and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if kinds.is_struct(kind):
        return pa.struct(_spark_fields(list(kind), f"{path}."))
    if kinds.is_map(kind):
        key = pa.field("key", _spark_type(kind.key_type, f"{path}.key"), nullable=False)
        return pa.map_(key, pa.field("value", _spark_type(kind.item_type, f"{path}.value")))
    if any(is_kind(kind) for is_kind in _LISTS):
        return pa.list_(pa.field("element", _spark_type(kind.value_type, f"{path}.element")))
    raise OptionError(f"the column {path!r} is of the type {kind}, which Spark cannot hold: give a schema without it")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of ``batch`` as a batch of exactly ``schema``.

    Columns, and the fields of structs, match by name: by the exact name, or by the only one that differs just in case.
    Missing columns are null, and surplus columns are dropped.  Types are cast if no value changes.  But parts of a
    microsecond are rounded down, and a timestamp without a zone is UTC, as in Spark.

    Raises BadRecordError, which names the column and both types, for a value that does not fit.  Also raises it for a
    null where ``schema`` allows none.
    """
    if batch.schema.equals(schema, check_metadata=True) and all(field.nullable for field in schema):
        return batch
    names = batch.schema.names
    columns = [_field(batch.columns, names, field, field.name, batch.num_rows) for field in schema]
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise BadRecordError(f"the column {field.name!r} has {column.null_count} nulls, and the schema allows none")
    return batch_of(columns, schema, batch.num_rows)


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Return a batch; one without columns keeps its number of rows only if it is made from structs."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


NO_VALUES = (BadRecordError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)
"""What is raised for values of which one does not fit its type."""


def by_halves(
    make: Callable[[Any], pa.Array], values: Any, good: npt.NDArray[np.bool_], kind: pa.DataType
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return ``make(values)``, of the type ``kind``, and which values are in it; others are null.

    values: a sequence, or an array of Arrow; ``good`` says which of them may be in the result at all.
    make: raises one of NO_VALUES if a value does not fit.  Halves are tried until such values are alone.
    """
    try:
        return make(values), good
    except NO_VALUES:
        if len(values) == 1:
            return pa.nulls(1, kind), np.zeros(1, np.bool_)
    half = len(values) // 2
    parts = [by_halves(make, values[part], good[part], kind) for part in (slice(half), slice(half, None))]
    return pa.concat_arrays([array for array, _ in parts]), np.concatenate([fits for _, fits in parts])


def surely_fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether ``conform`` certainly converts all values of a type, if times are before the year 292,000."""
    given = plain_type(given)
    if kinds.is_timestamp(given) and kinds.is_timestamp(wanted):
        return bool(wanted.unit == "us")
    return bool(given.equals(wanted))


def position_of(name: str, names: Sequence[str]) -> int | None:
    """Return the index of ``name`` in ``names``, or of the only name that differs just in case.

    Raises CorruptDataError if several names match.
    """
    for same in (str, str.lower):
        indices = [index for index, other in enumerate(names) if same(other) == same(name)]
        if len(indices) == 1:
            return indices[0]
        if indices:
            raise CorruptDataError(f"{len(indices)} columns are called {name!r}")
    return None


def plain(values: pa.Array) -> pa.Array:
    """Return an array without Arrow's wrappers of values: dictionaries, runs and extension types."""
    while (kind := values.type) != plain_type(kind):
        if isinstance(kind, pa.BaseExtensionType):
            values = values.storage
        else:
            values = values.dictionary_decode() if kinds.is_dictionary(kind) else pc.run_end_decode(values)
    return values


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of ``plain(values)`` for values of this type."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def with_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type whose leaves are replaced, in their order; fields are nullable, except for the keys of maps."""
    kind = plain_type(kind)
    if kinds.is_struct(kind):
        return pa.struct([pa.field(field.name, with_leaves(field.type, leaf)) for field in kind])
    if kinds.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(with_leaves(key.type, leaf)), pa.field(item.name, with_leaves(item.type, leaf)))
    if any(is_kind(kind) for is_kind in _LISTS):
        return pa.list_(pa.field(kind.value_field.name, with_leaves(kind.value_type, leaf)))
    return leaf(kind)


def retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as another type with the same layout in memory: texts are bytes, maps are lists.

    ``view`` and ``cast`` do the same, but give nulls within lists the length of the outer array.
    """
    return pa.array(_Retyped(values, kind))


@dataclass(frozen=True)
class _Retyped:
    values: pa.Array
    kind: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the type and the values of the array; see Arrow's PyCapsule interface."""
        del requested_schema
        _, values = self.values.__arrow_c_array__()
        return self.kind.__arrow_c_schema__(), values


def _field(columns: Sequence[pa.Array], names: Sequence[str], field: pa.Field, path: str, rows: int) -> pa.Array:
    index = position_of(field.name, names)
    return pa.nulls(rows, field.type) if index is None else _converted(columns[index], field.type, path)


def _converted(values: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    if values.type.equals(wanted, check_metadata=True):
        return values
    if len(values) and values.null_count == len(values):
        return pa.nulls(len(values), wanted)
    values = plain(values)
    given = values.type
    if kinds.is_struct(wanted) and kinds.is_struct(given):
        return _struct(values, wanted, path)
    if kinds.is_map(wanted) and kinds.is_map(given):
        entry = pa.struct([given.key_field, given.item_field])
        values = retyped(values, pa.list_(pa.field("entries", entry, nullable=False)))
        entries = values.flatten()
        keys = _converted(entries.field(0), wanted.key_type, f"{path}.key")
        items = _converted(entries.field(1), wanted.item_type, f"{path}.value")
        return pa.MapArray.from_arrays(offsets_of(values), keys, items, type=wanted, mask=mask_of(values))
    if (kinds.is_list(wanted) or kinds.is_large_list(wanted)) and any(is_kind(given) for is_kind in _LISTS):
        elements = _converted(values.flatten(), wanted.value_type, f"{path}.element")
        list_type = pa.ListArray if kinds.is_list(wanted) else pa.LargeListArray
        return list_type.from_arrays(offsets_of(values), elements, type=wanted, mask=mask_of(values))
    try:
        return _cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        # ArrowNotImplementedError: Arrow knows no such cast.  Its messages may show the value.
        sentence = f"the column {path!r} is of the type {given}, and not every value of it is a {wanted}"
        raise BadRecordError(f"{sentence}: give it a type that holds them all") from None


def _struct(values: pa.StructArray, wanted: pa.StructType, path: str) -> pa.Array:
    names = [field.name for field in values.type]
    children = [values.field(index) for index in range(len(names))]
    fields = list(wanted)
    converted = [_field(children, names, field, f"{path}.{field.name}", len(values)) for field in fields]
    if not converted:
        return pa.nulls(len(values), wanted) if values.null_count else pa.array([{}] * len(values), wanted)
    return pa.StructArray.from_arrays(converted, fields=fields, mask=mask_of(values))


def offsets_of(values: pa.Array) -> pa.Array:
    """Return offsets into ``values.flatten()``, which leaves out values hidden by slices and nulls."""
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    width = np.int64 if kinds.is_large_list(values.type) else np.int32
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(width))


def mask_of(values: pa.Array) -> pa.BooleanArray | None:
    """Return the mask of nulls for Arrow's constructors."""
    return values.is_null() if values.null_count else None


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    given = values.type
    if kinds.is_timestamp(given) and kinds.is_timestamp(wanted) and (given.unit, wanted.unit) == ("ns", "us"):
        return microseconds_of(values).view(pa.int64()).view(wanted)
    if kinds.is_temporal(wanted) and (kinds.is_integer(given) or kinds.is_floating(given)):
        raise pa.ArrowTypeError("a number has no unit")
    if kinds.is_temporal(given) and (kinds.is_integer(wanted) or kinds.is_floating(wanted)):
        raise pa.ArrowTypeError("a number has no unit")
    if kinds.is_map(given):
        raise pa.ArrowTypeError("Arrow gives keys and values to the fields of a list's structs by their places")
    if kinds.is_timestamp(given) and kinds.is_date32(wanted):
        # The day is that of UTC.  Arrow takes the day of the zone, and drops the time of day.
        numbers = values.view(pa.int64())
        if (numbers.fill_null(0).to_numpy() % _PER_DAY[given.unit]).any():
            raise pa.ArrowInvalid("a date has no time of day")
        return numbers.view(pa.timestamp(given.unit)).cast(wanted)
    if kinds.is_decimal(wanted) and (kinds.is_string(given) or kinds.is_large_string(given)):
        return decimals(values, wanted)
    # Arrow rounds the last digit of a decimal wrongly.  A cast by text gives the double nearest to the decimal.
    by_text = kinds.is_decimal(given) and kinds.is_floating(wanted)
    result = (values.cast(pa.string()) if by_text else values).cast(wanted)
    if by_text or _may_round(given, wanted):
        back = (result.cast(pa.string()) if by_text else result).cast(given)
        if not _is_same(back, values):
            raise pa.ArrowInvalid("it would be rounded")
    return result


def _may_round(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Arrow rounds numbers of the given type silently."""
    if kinds.is_floating(given):
        return any(is_kind(wanted) for is_kind in (kinds.is_boolean, kinds.is_float32, kinds.is_decimal))
    return bool(kinds.is_integer(given) and kinds.is_boolean(wanted))


def _is_same(result: pa.Array, values: pa.Array) -> bool:
    same = pc.equal(result, values)
    if kinds.is_floating(values.type):
        same = pc.or_(same, pc.and_(pc.is_nan(result), pc.is_nan(values)))
    return bool(pc.all(same, min_count=0).as_py())
