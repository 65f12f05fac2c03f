"""Finds archived records on the driver: lists the objects of partitions, and looks into them by offset and by time."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.alignment.splits import Head
from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.errors import OptionError
from tidegate.readers.archive.archive import Archive, Group, between
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.arrow.arrays import int64_values
from tidegate.readers.places.place import Place

HELD_BYTES = 64 << 20  # of row groups
HELD_FOOTERS = 4096
_MICROSECONDS = 1000  # in a millisecond
_THREADS = 8
_LOGS = {"_delta_log": ("a Delta", ".json"), "metadata": ("an Iceberg", ".metadata.json")}
"""The folder with a table's log, what kind of table it is, and how names of files there end."""


def directories_of(
    archive: Archive, partitions: Collection[tuple[str, int]], *, option: str = "archive"
) -> dict[tuple[str, int], Directory]:
    """Return the directory of each partition.

    Raises ConnectorError if the place cannot be listed, DeadlineError if it does not answer, CorruptDataError for an
    object that was renamed, and OptionError if the place has no bucket, is malformed, or is a table.
    """

    def listed(partition: tuple[str, int]) -> Directory:
        path = archive.folder_of(*partition)
        files = archived_folder(archive.place, path, option=option).files()
        return Directory(archive.objects_in(path, {name: info.bytes for name, info in files.items()}))

    with ThreadPoolExecutor(_THREADS, "tidegate-archive") as threads:
        found = dict(zip(partitions, threads.map(listed, partitions), strict=True))
    if not any(directory.parts for directory in found.values()):
        for path in ("", *sorted({topic for topic, _ in partitions})):
            _refuse_table(
                archived_folder(archive.place, path, option=option), f"{option} is {archive.place.location!r}"
            )
    return found


def archived_folder(place: Place, path: str, *, option: str = "archive") -> Folder:
    """Return a folder of an archive.  Raises OptionError if the place is malformed."""
    folder = open_folder(place.location, place.connection, option=option, noun="archive")
    for name in filter(None, path.split("/")):
        folder = folder.within(name)
    return folder


def _refuse_table(folder: Folder, named: str) -> None:
    """Raise OptionError for the folder of a table: among its files are rows that were deleted or replaced."""
    for name in _LOGS.keys() & set(folder.folders()):
        kind, ending = _LOGS[name]
        if any(file.endswith(ending) for file in folder.within(name).files()):
            raise OptionError(
                f"{named}, but {folder.address} is {kind} table; an archive is what tidegate archive writes"
            )


class ArchivedRecords:
    """The archived records of all partitions.  Keeps the row groups that were read last, since plans look there again.

    schema: the columns that are needed, among them ``offset`` and ``timestamp``.
    """

    def __init__(self, archive: Archive, schema: pa.Schema) -> None:
        self._archive, self._schema = archive, schema
        self._groups = lru_cache(HELD_FOOTERS)(archive.groups_of)
        self._held: OrderedDict[tuple[str, int], list[pa.RecordBatch]] = OrderedDict()
        self._bytes = 0

    def from_offset(self, directory: Directory, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in order; row groups are read when their turn comes.

        Raises the errors of ``Archive.open``.
        """
        for part in directory.within(start, end):
            yield from self._within(part.obj, part.start, part.end)

    def first_at(self, directory: Directory, time_ms: int, start: int, end: int) -> Head | None:
        """Return the first record of a range whose timestamp is at or after a time.

        Only row groups with such a record are read.  Raises the errors of ``Archive.open``.
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
        with self._archive.open(obj) as opened:
            batches = self._held[key] = list(opened.read([group.number], self._schema))
        self._bytes += _size(batches)
        while self._bytes > HELD_BYTES and len(self._held) > 1:
            self._bytes -= _size(self._held.popitem(last=False)[1])
        return batches


def _size(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
