"""Parquet objects, cut at row groups.  Times come from statistics, and columns are read by ranges of bytes.

An object of up to SMALL_BYTES is read by one request.  From a larger one, only the requested columns are fetched.
Memory holds at most HELD_BYTES of a group and as much of the next one, and at most MOST_ROWS decoded rows.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.arrays import BATCH_BYTES, MOST_ROWS
from tidegate.readers.arrow.calendars import CLOCKS_AGREE_MS, legacy_times
from tidegate.readers.arrow.conform import position_of, spark_schema, with_leaves
from tidegate.readers.event_time.columns import check_time_type, times_ms
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.surveys import GroupTimes, RowGroup
from tidegate.readers.formats.typed import GroupedObject
from tidegate.readers.objects.file import SIGNATURE_BYTES, Fetch, ObjectFile, other_format
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES, Bucket, S3Object, TimeRange

HELD_BYTES = 64 << 20
HOLE_BYTES = 256 << 10  # a smaller gap is fetched with the ranges around it
# A row group of more than HELD_BYTES is fetched while it is decoded.  Each column then has a buffer within the two
# request sizes, and STREAMED_BYTES is the goal for the buffers of all columns.
STREAMED_BYTES = 64 << 20
LEAST_REQUEST, MOST_REQUEST = 256 << 10, 8 << 20
TRAILER_BYTES = 8  # the footer's length and the magic
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}  # the minimum size of a decoded value; else 8 bytes


class ParquetObject(GroupedObject):
    """An object whose footer was read, and the file if all its bytes were fetched with it."""

    def __init__(self, size: int, fetch: Fetch, metadata: Any, whole: pq.ParquetFile | None) -> None:
        self.fields = list(metadata.schema.to_arrow_schema())
        self.groups, self.size = row_groups(metadata, size), size
        self._fetch, self._metadata, self._whole = fetch, metadata, whole
        self._legacy = legacy_times(
            {key.decode(errors="replace"): value for key, value in (metadata.metadata or {}).items()}
        )

    def spark_schema(self) -> pa.Schema:
        """See TypedObject.spark_schema."""
        return spark_schema(schema_as_spark_reads_it(pa.schema(self.fields), self._metadata))

    def known_times(self, column: str, unit: TimeUnit | None) -> dict[RowGroup, GroupTimes]:
        """See GroupedObject.known_times.  They come from statistics, which texts and INT96 do not have."""
        leaf = leaf_of(self._metadata, column)
        if leaf is None:
            return {}
        check_time_type(column, leaf_types(pa.schema(self.fields))[leaf], unit)
        found = {group: statistics_times(self._metadata, group.number, leaf, unit) for group in self.groups}
        return {group: times for group, times in found.items() if times is not None and self._are_modern(times[0])}

    def _are_modern(self, times: TimeRange | None) -> bool:
        return self._legacy is None or times is None or times.min_ms >= CLOCKS_AGREE_MS

    def decoded(self, groups: Sequence[RowGroup], places: Sequence[int]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """See GroupedObject.decoded."""
        return self._decoded(groups, [self.fields[place].name for place in places])

    def times_decoded(
        self, groups: Sequence[RowGroup], column: str, place: int
    ) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """See GroupedObject.times_decoded.  The other leaves of a struct are not fetched."""
        leaf = leaf_of(self._metadata, column)
        if leaf is None:
            return self.decoded(groups, [place])
        return self._decoded(groups, [self._metadata.schema.column(leaf).path])

    def _decoded(self, groups: Sequence[RowGroup], names: list[str]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        metadata = self._metadata
        leaves = [] if self._whole else _leaves(metadata, names)
        ranges = [column_ranges(metadata, group.number, leaves) for group in groups] if leaves else []
        streamed = any(sum(end - start for start, end in group_ranges) > HELD_BYTES for group_ranges in ranges)
        request = min(max(STREAMED_BYTES // len(leaves), LEAST_REQUEST), MOST_REQUEST) if streamed else 0
        widest = 1
        with self._file(request) as (file, source):
            for index, group in enumerate(groups):
                if source is not None and not streamed:
                    source.hold(chain.from_iterable(ranges[index : index + 2]))
                widest = max(widest, row_bytes(metadata, group.number, leaves or None))
                rows = min(MOST_ROWS, max(1, BATCH_BYTES // widest))
                for batch in file.iter_batches(rows, row_groups=[group.number], columns=names, use_threads=False):
                    widest = max(widest, batch.nbytes // max(1, batch.num_rows))
                    yield group, batch if self._legacy is None else self._legacy.modern(batch, self._int96)

    @functools.cached_property
    def _int96(self) -> set[str]:
        leaves = map(self._metadata.schema.column, range(self._metadata.num_columns))
        paths = tuple(f"{leaf.path}." for leaf in leaves if leaf.physical_type == "INT96")
        return {field.name for field in self.fields if any(path.startswith(f"{field.name}.") for path in paths)}

    @contextmanager
    def _file(self, request: int) -> Iterator[tuple[pq.ParquetFile, ObjectFile | None]]:
        """Yield the file that Arrow reads, and its source unless it is in memory."""
        if self._whole is not None:
            yield self._whole, None
            return
        with closing(ObjectFile(self.size, self._fetch, SMALL_BYTES)) as source:
            yield _parquet(source, self._metadata, request), source


@contextmanager
def opened_parquet(store: Bucket, obj: S3Object, *, whole: bool = False) -> Iterator[ParquetObject]:
    """Open an object; see OpenObject.  There is one request, or two if the footer is large."""
    fetch: Fetch = functools.partial(store.fetch, obj)
    start = 0 if whole else max(0, obj.size - TAIL_BYTES)
    tail = fetch(start, obj.size)
    trailer = tail[-TRAILER_BYTES:]
    if trailer[4:] == b"PARE":
        raise CorruptDataError("its footer is encrypted")
    if len(trailer) < TRAILER_BYTES or trailer[4:] != b"PAR1":
        head = tail if start == 0 else fetch(0, SIGNATURE_BYTES)
        raise CorruptDataError(f"it does not end as Parquet does{other_format(head)}")
    footer_bytes = int.from_bytes(trailer[:4], "little") + TRAILER_BYTES
    if footer_bytes > obj.size:
        raise CorruptDataError(f"its footer would have {footer_bytes} bytes, and it has {obj.size}")
    if footer_bytes > len(tail):
        tail = fetch(obj.size - footer_bytes, start) + tail
    if len(tail) == obj.size:
        file = _parquet(pa.BufferReader(tail))
        yield ParquetObject(obj.size, fetch, file.metadata, file)
    else:
        metadata = pq.read_metadata(pa.BufferReader(pa.py_buffer(tail)[-footer_bytes:]))
        yield ParquetObject(obj.size, fetch, metadata, None)


def _leaves(metadata: Any, names: Sequence[str]) -> list[int]:
    prefixes = tuple(f"{name}." for name in names)
    paths = [f"{metadata.schema.column(leaf).path}." for leaf in range(metadata.num_columns)]
    return [leaf for leaf, path in enumerate(paths) if path.startswith(prefixes)]


def _parquet(source: Any, metadata: Any = None, request: int = 0) -> pq.ParquetFile:
    # Arrow need not buffer ahead: held ranges are in memory, and the others are fetched while they are decoded.
    return pq.ParquetFile(
        source, metadata=metadata, pre_buffer=False, buffer_size=request, coerce_int96_timestamp_unit="us"
    )


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
    dictionary = column.dictionary_page_offset  # 0 or None without one
    return int(min(dictionary, column.data_page_offset) if dictionary else column.data_page_offset)


def column_ranges(metadata: Any, group: int, leaves: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges of bytes of some columns of a row group, in order, end exclusive; near ranges are merged."""
    columns = [metadata.row_group(group).column(leaf) for leaf in leaves]
    starts = [_first_byte(column) for column in columns]
    return _merged(
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


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of bytes in order, end exclusive; ranges with a gap of at most HOLE_BYTES become one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start - merged[-1][1] <= HOLE_BYTES:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
