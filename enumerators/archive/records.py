"""Looks into archived records on the driver, by offset and by time."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.alignment.splits import Head
from tidegate.readers.archive.archive import Archive, Group, Unit, in_offset_order
from tidegate.readers.archive.directory import ArchivedPart, Directory
from tidegate.readers.arrow.arrays import int64_values

HELD_BYTES = 64 << 20  # of row groups
HELD_FOOTERS = 4096
_EVER = 2**63 - 1
_MICROSECONDS = 1000  # in a millisecond


class ArchivedRecords:
    """The archived records of all partitions.  Keeps the row groups that were read last, since plans look there again.

    schema: the columns that are needed, among them ``offset`` and ``timestamp``.
    """

    def __init__(self, archive: Archive, schema: pa.Schema) -> None:
        self._archive, self._schema = archive, schema
        self._groups = lru_cache(HELD_FOOTERS)(archive.groups_of)
        self._held: OrderedDict[tuple[Any, int], list[pa.RecordBatch]] = OrderedDict()
        self._bytes = 0

    def from_offset(self, directory: Directory, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in order; row groups are read when their turn comes.

        Raises the errors of ``Archive.open``.
        """
        for part in directory.within(start, end):
            yield from self._within(part, part.start, part.end)

    def first_at(self, directory: Directory, time_ms: int, start: int, end: int) -> Head | None:
        """Return the first record of a range whose timestamp is at or after a time.

        Only row groups with such a record are read.  Raises the errors of ``Archive.open``.
        """
        for part in directory.with_times_from(time_ms, start):
            begin = max(part.start, start)
            if begin >= end:
                return None
            for batch in self._within(part, begin, min(part.end, end), time_ms):
                times = int64_values(batch.column("timestamp"))
                found = times >= time_ms * _MICROSECONDS
                if found.any():
                    row = int(np.argmax(found))
                    return Head(int(int64_values(batch.column("offset"))[row]), int(times[row]) // _MICROSECONDS)
        return None

    def _within(self, part: ArchivedPart, start: int, end: int, time_ms: float = -math.inf) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range, without row groups that end before a time."""

        def units_of(file: Any) -> Iterator[Unit]:
            groups = (group for group in self._groups(file) if group.max_ms >= time_ms)
            return ((group, partial(self._rows, file, group)) for group in groups)

        return in_offset_order(part.files, units_of, start, end)

    def _rows(self, file: Any, group: Group) -> list[pa.RecordBatch]:
        key = file, group.number
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        with self._archive.open(file) as opened:
            batches = self._held[key] = list(opened.read(group.number, 0, _EVER, self._schema))
        self._bytes += _size(batches)
        while self._bytes > HELD_BYTES and len(self._held) > 1:
            self._bytes -= _size(self._held.popitem(last=False)[1])
        return batches


def _size(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
