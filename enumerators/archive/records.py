"""Looks at archived records on the driver, by offset and by time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidegate.alignment.splits import Head
from tidegate.enumerators.archive.directory import Directory
from tidegate.readers.archive.layout import ArchiveLayout, Group
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.archive.read import groups_of, read_groups
from tidegate.readers.arrow.numpy_arrays import int64_values

HELD_BYTES = 64 << 20  # of row groups
HELD_FOOTERS = 4096
_MICROSECONDS = 1000  # in a millisecond


class ArchivedRecords:
    """The archived records of all partitions.  Keeps the row groups that were read last, since plans look there again.

    schema: the columns that are needed, among them ``offset`` and ``timestamp``.
    """

    def __init__(self, layout: ArchiveLayout, schema: pa.Schema) -> None:
        self._layout, self._schema = layout, schema
        self._footers: OrderedDict[str, list[Group]] = OrderedDict()
        self._held: OrderedDict[tuple[str, int], list[pa.RecordBatch]] = OrderedDict()
        self._bytes = 0

    def from_offset(self, directory: Directory, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in order; row groups are read when their turn comes.

        Raises the errors of ``read_records``.
        """
        for part in directory.within(start, end):
            for group in self._groups(part.obj):
                if group.last >= part.start and group.first < part.end:
                    for batch in self._rows(part.obj, group):
                        offsets = int64_values(batch.column("offset"))
                        first, stop = offsets.searchsorted([part.start, part.end])
                        if first < stop:
                            yield batch.slice(first, stop - first)

    def first_at(self, directory: Directory, time_ms: int, start: int, end: int) -> Head | None:
        """Return the first record of a range whose timestamp is at or after a time.

        Only row groups with such a record are read.  Raises the errors of ``read_records``.
        """
        for part in directory.with_times_from(time_ms, start):
            begin, stop = max(part.start, start), min(part.end, end)
            if begin >= end:
                return None
            for group in self._groups(part.obj):
                if group.max_ms < time_ms or group.last < begin or group.first >= stop:
                    continue
                for batch in self._rows(part.obj, group):
                    offsets, times = (int64_values(batch.column(name)) for name in ("offset", "timestamp"))
                    found = (times >= time_ms * _MICROSECONDS) & (offsets >= begin) & (offsets < stop)
                    if found.any():
                        row = int(np.argmax(found))
                        return Head(int(offsets[row]), int(times[row]) // _MICROSECONDS)
        return None

    def _groups(self, obj: ArchivedObject) -> list[Group]:
        if obj.path not in self._footers:
            self._footers[obj.path] = groups_of(self._layout, obj)
            if len(self._footers) > HELD_FOOTERS:
                self._footers.popitem(last=False)
        return self._footers[obj.path]

    def _rows(self, obj: ArchivedObject, group: Group) -> list[pa.RecordBatch]:
        key = obj.path, group.number
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        batches = self._held[key] = read_groups(self._layout, obj, group.number, self._schema)
        self._bytes += _size(batches)
        while self._bytes > HELD_BYTES and len(self._held) > 1:
            self._bytes -= _size(self._held.popitem(last=False)[1])
        return batches


def _size(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
