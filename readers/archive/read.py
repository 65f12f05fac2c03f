"""Reads archived records of an offset range, with the columns that Kafka's reader gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptDataError
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.place import ArchivePlace
from tidegate.readers.arrow.numpy_arrays import int64_values
from tidegate.readers.formats.parquet.footer import column_ranges, row_bytes
from tidegate.readers.formats.row_groups import BATCH_BYTES, MOST_ROWS, within_bounds
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.s3.store import SMALL_BYTES, TAIL_BYTES

__all__ = ["Group", "groups_of", "read_groups", "read_records"]

_OFFSET, _TIMESTAMP = "offset", "timestamp"


class Group(NamedTuple):
    """A row group of an object.

    first, last: the offsets of its first and its last record.
    max_ms: the greatest timestamp of its records in ms.
    """

    number: int
    first: int
    last: int
    max_ms: int


def read_records(
    place: ArchivePlace, obj: ArchivedObject, start: int, end: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the records from ``start`` to ``end``, exclusive, in batches of a bounded size.

    schema: the wanted columns, among them ``offset``.

    Raises CorruptDataError, which names the object, if it is damaged or does not hold what its name says.  Raises
    ObjectGoneError if it was deleted, and ConnectorError or DeadlineError if it cannot be fetched.
    """
    with _opened(place, obj) as (file, source):
        wanted = [group for group in _groups(file.metadata, obj) if group.last >= start and group.first < end]
        for batch in _read(file, source, obj, [group.number for group in wanted], schema):
            offsets = int64_values(batch.column(_OFFSET))
            part = batch.slice(*_between(offsets, start, end))
            if part.num_rows:
                yield from within_bounds(part)


def read_groups(place: ArchivePlace, obj: ArchivedObject, number: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the records of a row group, with some columns.  Raises the errors of ``read_records``."""
    with _opened(place, obj) as (file, source):
        return list(_read(file, source, obj, [number], schema))


def groups_of(place: ArchivePlace, obj: ArchivedObject) -> list[Group]:
    """Return the row groups of an object, in the order of their offsets.  Raises the errors of ``read_records``."""
    with _opened(place, obj) as (file, _):
        return _groups(file.metadata, obj)


def _between(offsets: Any, start: int, end: int) -> tuple[int, int]:
    first, stop = offsets.searchsorted([start, end])
    return int(first), int(stop - first)


@contextmanager
def _opened(place: ArchivePlace, obj: ArchivedObject) -> Iterator[tuple[pq.ParquetFile, ObjectFile]]:
    fetch = partial(place.fetch, obj.path, obj.size)
    with ObjectFile(obj.size, fetch, SMALL_BYTES) as source:
        # One request for a small object, and for the footer of a large one.
        source.hold([(0, obj.size) if obj.size <= SMALL_BYTES else (max(0, obj.size - TAIL_BYTES), obj.size)])
        try:
            yield pq.ParquetFile(source, pre_buffer=False), source
        except (pa.ArrowException, OSError) as problem:
            raise CorruptDataError(f"the archived object {place.address(obj.path)} is damaged: {problem}") from problem


def _groups(metadata: Any, obj: ArchivedObject) -> list[Group]:
    leaves = {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}
    groups, before = [], obj.first - 1
    for number in range(metadata.num_row_groups):
        columns = [metadata.row_group(number).column(leaves[name]) for name in (_OFFSET, _TIMESTAMP) if name in leaves]
        statistics = [column.statistics for column in columns]
        if len(statistics) < 2 or not all(told is not None and told.has_min_max for told in statistics):
            raise pa.ArrowInvalid("its footer does not tell offsets and timestamps")
        group = Group(number, statistics[0].min_raw, statistics[0].max_raw, statistics[1].max_raw // 1000)
        if not before < group.first <= group.last < obj.next:
            raise pa.ArrowInvalid(f"it holds offsets {group.first} to {group.last}, unlike its name or out of order")
        groups.append(group)
        before = group.last
    return groups


def _read(
    file: pq.ParquetFile, source: ObjectFile, obj: ArchivedObject, numbers: list[int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    metadata, before = file.metadata, -1
    tops = tuple(f"{name}." for name in schema.names)
    leaves = [n for n in range(metadata.num_columns) if f"{metadata.schema.column(n).path}.".startswith(tops)]
    for place, number in enumerate(numbers):
        if obj.size > SMALL_BYTES:  # a small object is held already
            source.hold(
                span for wanted in numbers[place : place + 2] for span in column_ranges(metadata, wanted, leaves)
            )
        rows = min(MOST_ROWS, max(1, BATCH_BYTES // max(1, row_bytes(metadata, number, leaves))))
        for batch in file.iter_batches(rows, row_groups=[number], columns=schema.names, use_threads=False):
            offsets = int64_values(batch.column(_OFFSET))
            if not before < offsets[0] or (offsets[1:] <= offsets[:-1]).any():
                raise pa.ArrowInvalid("its offsets are out of order")
            before = int(offsets[-1])
            yield _with_schema(batch, schema)


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    missing = set(schema.names) - set(batch.schema.names)
    if missing:
        raise pa.ArrowInvalid(f"it has no column {min(missing)!r}")
    columns = [batch.column(name) for name in schema.names]
    for field, column in zip(schema, columns, strict=True):
        if column.type != field.type:
            raise pa.ArrowInvalid(f"its column {field.name!r} is {column.type}, and {field.type} is expected")
    return pa.RecordBatch.from_arrays(columns, schema=schema)
