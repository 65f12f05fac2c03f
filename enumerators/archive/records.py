"""Looks at archived records on the driver, by offset and by time."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.alignment.splits import Head
from tidegate.enumerators.archive.directory import Directory
from tidegate.readers.archive.layout import ArchiveLayout, Group, between
from tidegate.readers.archive.objects import ArchivedObject
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
        self._groups = lru_cache(HELD_FOOTERS)(layout.groups_of)
        self._held: OrderedDict[tuple[str, int], list[pa.RecordBatch]] = OrderedDict()
        self._bytes = 0

    def from_offset(self, directory: Directory, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in order; row groups are read when their turn comes.

        Raises the errors of ``ArchiveLayout.open``.
        """
        for part in directory.within(start, end):
            yield from self._within(part.obj, part.start, part.end)

    def first_at(self, directory: Directory, time_ms: int, start: int, end: int) -> Head | None:
        """Return the first record of a range whose timestamp is at or after a time.

        Only row groups with such a record are read.  Raises the errors of ``ArchiveLayout.open``.
        """
        for part in directory.with_times_from(time_ms, start):
            begin = max(part.start, start)
            if begin >= end:
                return None
            for batch in self._within(part.obj, begin, min(part.end, end), time_ms):
                times = int64_values(batch.column("timestamp"))
                found = times >= time_ms * _MICROSECONDS
                if found.any():
                    row = int(np.argmax(found))
                    return Head(int(int64_values(batch.column("offset"))[row]), int(times[row]) // _MICROSECONDS)
        return None

    def _within(
        self, obj: ArchivedObject, start: int, end: int, time_ms: float = -math.inf
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range, without row groups that end before a time."""
        for group in self._groups(obj):
            if group.max_ms >= time_ms and group.last >= start and group.first < end:
                yield from between(self._rows(obj, group), start, end)

    def _rows(self, obj: ArchivedObject, group: Group) -> list[pa.RecordBatch]:
        key = obj.path, group.number
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        with self._layout.open(obj) as opened:
            batches = self._held[key] = list(opened.read([group.number], self._schema))
        self._bytes += _size(batches)
        while self._bytes > HELD_BYTES and len(self._held) > 1:
            self._bytes -= _size(self._held.popitem(last=False)[1])
        return batches


def _size(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
