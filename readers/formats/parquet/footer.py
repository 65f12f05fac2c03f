"""Reads the footer of a Parquet object: its row groups, its columns, and the statistics of its times."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.conform import position_of, with_leaves
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.row_groups import RowGroup, merged_ranges
from tidegate.readers.objects.values import TimeRange

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}  # the minimum size of a decoded value; else 8 bytes


def row_groups(metadata: Any, size: int) -> list[RowGroup]:
    """Return the row groups with rows of an object of ``size`` bytes, in order.

    A row group starts at the first page of its first column, as in parquet-mr.  If their starts are not distinct and in
    order, all groups start at 0.

    Raises CorruptDataError for a row group outside the object.
    """
    groups = []
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        if group.num_rows:
            groups.append(RowGroup(index, _first_byte(group.column(0)), group.num_rows))
    if any(not 0 <= group.start < size for group in groups):
        raise CorruptDataError(f"its footer names row groups beyond its {size} bytes")
    starts = [group.start for group in groups]
    if starts != sorted(set(starts)):
        return [group._replace(start=0) for group in groups]
    return groups


def _first_byte(column: Any) -> int:
    dictionary = column.dictionary_page_offset  # 0 or None: there is none
    return int(min(dictionary, column.data_page_offset) if dictionary else column.data_page_offset)


def column_ranges(metadata: Any, group: int, leaves: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges of bytes of some columns of a row group, in order, end exclusive; near ranges are merged."""
    columns = [metadata.row_group(group).column(leaf) for leaf in leaves]
    starts = [_first_byte(column) for column in columns]
    return merged_ranges(
        [(start, start + column.total_compressed_size) for start, column in zip(starts, columns, strict=True)]
    )


def row_bytes(metadata: Any, group: int, leaves: Iterable[int] | None) -> int:
    """Estimate the size of a decoded row in bytes; texts in dictionaries may take more.

    leaves: the columns; None: all columns, and the estimate is rather high then.
    """
    row_group = metadata.row_group(group)
    if leaves is None:
        return int(row_group.total_byte_size // row_group.num_rows + 8 * row_group.num_columns)
    columns = [row_group.column(leaf) for leaf in leaves]
    return int(
        sum(
            max(column.total_uncompressed_size // row_group.num_rows, _WIDTHS.get(column.physical_type, 8))
            for column in columns
        )
    )


def leaf_of(metadata: Any, column: str) -> int | None:
    """Return the index of the leaf at a dotted path, by position_of; None: no leaf there has one value in each row."""
    schema = metadata.schema
    leaf = position_of(column, [schema.column(leaf).path for leaf in range(metadata.num_columns)])
    return None if leaf is None or schema.column(leaf).max_repetition_level else leaf


def leaf_types(schema: pa.Schema) -> list[pa.DataType]:
    """Return the types of the leaves of a schema, in the order of Parquet's columns."""
    leaves: list[pa.DataType] = []

    def seen(leaf: pa.DataType) -> pa.DataType:
        leaves.append(leaf)
        return leaf

    with_leaves(pa.struct(list(schema)), seen)
    return leaves


def schema_as_spark_reads_it(schema: pa.Schema, metadata: Any) -> pa.Schema:
    """Return a file's Arrow schema with Spark's types: INT96 is an instant, and ENUM is a string."""
    columns = iter([metadata.schema.column(leaf) for leaf in range(metadata.num_columns)])

    def as_spark(leaf: pa.DataType) -> pa.DataType:
        column = next(columns)
        if column.physical_type == "INT96":
            return pa.timestamp("us", "UTC")
        return pa.string() if column.logical_type.type == "ENUM" else leaf

    return pa.schema([pa.field(field.name, with_leaves(field.type, as_spark)) for field in schema])


def statistics_times(
    metadata: Any, group: int, leaf: int, unit: TimeUnit | None
) -> tuple[TimeRange | None, int] | None:
    """Return the times of a row group by its statistics, and the number of its rows without one.

    Only statistics of numbers, dates and timestamps count, since texts do not sort by their times.  Times are also
    unknown if a bound is not a time, or if nulls are possible and not counted (Parquet: Statistics.null_count).
    """
    row_group = metadata.row_group(group)
    statistics = row_group.column(leaf).statistics
    if statistics is None:
        return None
    if not statistics.has_null_count and metadata.schema.column(leaf).max_definition_level:
        return None
    nulls = statistics.null_count if statistics.has_null_count else 0
    if nulls == row_group.num_rows:
        return None, nulls
    if not statistics.has_min_max or statistics.physical_type not in {"INT32", "INT64"}:
        return None
    bounds = _bounds(metadata.schema.column(leaf), [statistics.min_raw, statistics.max_raw])
    if bounds is None:
        return None
    low, high = times_ms(bounds, unit).to_pylist()
    return None if low is None or high is None or low > high else (TimeRange(low, high), nulls)


def _bounds(column: Any, raw: list[int]) -> pa.Array | None:
    """Return raw statistics as values of their type; Arrow's own conversion is slow, since it makes Python objects."""
    logical = json.loads(column.logical_type.to_json())
    name = logical["Type"]
    if name == "Timestamp":
        return pa.array(raw, pa.int64()).view(pa.timestamp(_UNITS[logical["timeUnit"]]))
    if name == "Date":
        return pa.array(raw, pa.int32()).view(pa.date32())
    if name == "Int" and not logical["isSigned"]:
        return pa.array([value % (1 << logical["bitWidth"]) for value in raw], pa.uint64())
    return pa.array(raw, pa.int64()) if name in {"Int", "None"} else None
