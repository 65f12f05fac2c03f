"""Reads archived records in Parquet, whose columns may have other names and types than Kafka's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.archive.layout import Group
from tidegate.readers.archive.objects import UNKNOWN_MS, ArchivedObject
from tidegate.readers.arrow.numpy_arrays import are_null, int64_values, integers, repeated, repeated_text
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.formats.parquet.footer import column_ranges, row_bytes, statistics_times
from tidegate.readers.formats.row_groups import BATCH_BYTES, MOST_ROWS
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES
from tidegate.readers.places.place import Place

_MICROSECONDS = 1000  # in a millisecond
_NO_TIME_MS = -1  # as Kafka's records say


@contextmanager
def opened_parquet(place: Place, path: str, size: int) -> Iterator[tuple[pq.ParquetFile, ObjectFile | None]]:
    """Open an object of the archive, also as a file in which ranges may be held; None: it is read as fast without.

    While it is open, raises the errors of ``ArchiveLayout.open``.
    """
    with ObjectFile(size, partial(place.fetch, path, size), SMALL_BYTES) as source:
        if place.is_far:  # one request for a small object, and for the footer of a large one
            source.hold([(0, size) if size <= SMALL_BYTES else (max(0, size - TAIL_BYTES), size)])
        try:
            file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
            yield file, source if place.is_far else None
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            raise CorruptDataError(f"the archived object {place.address(path)} cannot be read: {problem}") from problem


def leaves_of(metadata: Any) -> dict[str, int]:
    """Return the numbers of the leaves by their paths."""
    return {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}


def bounds_of(metadata: Any, number: int, leaf: int | None) -> tuple[Any, Any]:
    """Return the least and the greatest value of a column without nulls, by the statistics of a row group.

    Raises ArrowInvalid if the footer does not tell them.
    """
    told = None if leaf is None else metadata.row_group(number).column(leaf).statistics
    if told is None or not told.has_min_max or (told.has_null_count and told.null_count):
        raise pa.ArrowInvalid("its footer does not tell topic, partition and offsets")
    return told.min, told.max


def offsets_of(metadata: Any, number: int, leaf: int | None) -> tuple[int, int]:
    """Return the least and the greatest offset of a row group; raises ArrowInvalid as ``bounds_of`` does."""
    first, last = bounds_of(metadata, number, leaf)
    if not isinstance(first, int) or not isinstance(last, int):
        raise pa.ArrowInvalid(f"its offsets are of the type {type(first).__name__}, and whole numbers are expected")
    return first, last


def latest_of(metadata: Any, number: int, leaf: int | None) -> int:
    """Return the greatest timestamp of a row group in ms by its statistics; UNKNOWN_MS: they do not tell it."""
    if leaf is None:
        return UNKNOWN_MS
    is_number = metadata.schema.column(leaf).logical_type.type in {"INT", "NONE"}
    told = statistics_times(metadata, number, leaf, "ms" if is_number else None)
    if told is None:
        return UNKNOWN_MS
    return _NO_TIME_MS if told[0] is None else told[0].max_ms


class ArchivedParquet:
    """An object with a column for each of Kafka's.

    columns: the columns by Kafka's names; None: the archive does not keep it, and it is null.
    """

    def __init__(
        self, file: pq.ParquetFile, source: ObjectFile | None, obj: ArchivedObject, columns: Mapping[str, str | None]
    ) -> None:
        self._file, self._source, self._obj, self._columns = file, source, obj, columns
        self.groups = list(self._grouped())

    def _grouped(self) -> Iterator[Group]:
        metadata, before = self._file.metadata, self._obj.first - 1
        leaves = leaves_of(metadata)
        offset, timestamp = (leaves.get(self._columns[name] or "") for name in ("offset", "timestamp"))
        for number in range(metadata.num_row_groups):
            if not metadata.row_group(number).num_rows:
                continue
            first, last = offsets_of(metadata, number, offset)
            if not before < first <= last < self._obj.next:
                raise pa.ArrowInvalid(f"it holds offsets {first} to {last}, unlike its name or out of order")
            yield Group(number, first, last, latest_of(metadata, number, timestamp))
            before = last

    def read(self, numbers: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records of some row groups."""
        metadata, before = self._file.metadata, -1
        there = {path.partition(".")[0] for path in leaves_of(metadata)}
        wanted = [named for name in schema.names if (named := self._columns[name]) in there and named is not None]
        tops = tuple(f"{named}." for named in wanted)
        leaves = [leaf for path, leaf in leaves_of(metadata).items() if f"{path}.".startswith(tops)]
        for place, number in enumerate(numbers):
            if self._source is not None and self._obj.size > SMALL_BYTES:  # a small object is held already
                self._source.hold(self._ahead(numbers[place:], leaves))
            rows = min(MOST_ROWS, max(1, BATCH_BYTES // max(1, row_bytes(metadata, number, leaves))))
            for raw in self._file.iter_batches(rows, row_groups=[number], columns=wanted, use_threads=False):
                batch = pa.RecordBatch.from_arrays([self._column(raw, field) for field in schema], schema=schema)
                offsets = int64_values(batch.column("offset"))
                if not before < offsets[0] or (offsets[1:] <= offsets[:-1]).any():
                    raise pa.ArrowInvalid("its offsets are out of order")
                before = int(offsets[-1])
                yield batch

    def _ahead(self, numbers: list[int], leaves: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the spans of the next two row groups, and of more if they are small."""
        size = 0
        for count, number in enumerate(numbers):
            if count > 1 and size > SMALL_BYTES:
                return
            for start, end in column_ranges(self._file.metadata, number, leaves):
                size += end - start
                yield start, end

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        """Return a column as Kafka's reader gives it; topic and partition may be known from folders only."""
        named = self._columns[field.name]
        if named is None:
            return pa.nulls(batch.num_rows, field.type)
        if named in batch.schema.names:
            return _converted(batch.column(named), field)
        topic, _, partition = self._obj.folder.rpartition("/")
        if field.name == "topic":
            return repeated_text(topic, batch.num_rows)
        if field.name == "partition":
            return repeated(int(partition), field.type, batch.num_rows)
        raise pa.ArrowInvalid(f"it has no column {named!r}")


def _converted(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column in Kafka's type; timestamps may be of any unit, or numbers of milliseconds."""
    try:
        if field.name == "timestamp" and (column.type != field.type or column.null_count):
            times = times_ms(column, "ms" if pa.types.is_integer(column.type) else None)
            numbers = np.where(are_null(times), _NO_TIME_MS, int64_values(times)) * _MICROSECONDS
            return integers(numbers, field.type)
        return column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowException, OptionError):
        raise pa.ArrowInvalid(f"its column {field.name!r} is {column.type}, and {field.type} is expected") from None
