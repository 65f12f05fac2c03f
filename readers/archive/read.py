"""Reads archived records of an offset range, with the columns that Kafka's reader gives."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidegate.readers.archive.layout import ArchiveLayout, Group
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.arrow.numpy_arrays import int64_values
from tidegate.readers.formats.row_groups import within_bounds


def read_records(
    layout: ArchiveLayout, obj: ArchivedObject, start: int, end: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the records from ``start`` to ``end``, exclusive, in batches of a bounded size.

    schema: the wanted columns, among them ``offset``.

    Raises the errors of ``ArchiveLayout.open``.
    """
    with layout.open(obj) as opened:
        wanted = [group.number for group in opened.groups if group.last >= start and group.first < end]
        for batch in opened.read(wanted, schema):
            first, stop = int64_values(batch.column("offset")).searchsorted([start, end])
            if first < stop:
                yield from within_bounds(batch.slice(first, stop - first))


def read_groups(layout: ArchiveLayout, obj: ArchivedObject, number: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the records of a group, with some columns.  Raises the errors of ``ArchiveLayout.open``."""
    with layout.open(obj) as opened:
        return list(opened.read([number], schema))


def groups_of(layout: ArchiveLayout, obj: ArchivedObject) -> list[Group]:
    """Return the groups of an object, in the order of their offsets.  Raises the errors of ``ArchiveLayout.open``."""
    with layout.open(obj) as opened:
        return opened.groups
