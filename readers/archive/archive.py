"""The contract of an archive: how the records of topics lie in its objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import pyarrow as pa

from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.arrow.arrays import int64_values, within_bounds
from tidegate.readers.places.place import Place


class Group(NamedTuple):
    """A stretch of an object that is read as a whole, such as a row group of Parquet.

    first, last: the offsets of its first and its last record.
    max_ms: the greatest timestamp of its records in ms.
    """

    number: int
    first: int
    last: int
    max_ms: int


class OpenObject(Protocol):
    """An object that is being read.  groups: all its groups, in the order of their offsets."""

    groups: list[Group]

    def read(self, numbers: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records of some groups, in the order of their offsets, as exactly these columns."""


class Archive(ABC):
    """Finds the objects of a partition, with their offsets and times, and reads them.

    place: where the objects are.

    Picklable: the driver lists the objects, and executors read them.  An archive never guesses an offset: where an
    object does not say the offset of each record, it raises CorruptDataError.
    """

    place: Place

    @abstractmethod
    def folder_of(self, topic: str, partition: int) -> str:
        """Return the folder of the archive that has the objects of a partition."""

    @abstractmethod
    def objects_in(self, folder: str, files: Mapping[str, int]) -> Collection[ArchivedObject]:
        """Return the objects in the listing of a partition's folder.

        files: the size of each file by its name.

        Called on the driver, whenever it lists the archive.
        """

    @abstractmethod
    def open(self, obj: ArchivedObject) -> AbstractContextManager[OpenObject]:
        """Open an object, to read it.

        While it is open, raises CorruptDataError, which names the object, if it is damaged or does not hold what was
        listed.  Raises ObjectGoneError if it was deleted, and ConnectorError or DeadlineError if it cannot be fetched.
        """

    def groups_of(self, obj: ArchivedObject) -> list[Group]:
        """Return all groups of an object, in the order of their offsets.  Raises the errors of ``open``."""
        with self.open(obj) as opened:
            return opened.groups

    def read(self, obj: ArchivedObject, start: int, end: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records from ``start`` to ``end``, exclusive, in batches of a bounded size.

        schema: the wanted columns, among them ``offset``.

        Raises the errors of ``open``.
        """
        with self.open(obj) as opened:
            wanted = [group.number for group in opened.groups if group.last >= start and group.first < end]
            for batch in between(opened.read(wanted, schema), start, end):
                yield from within_bounds(batch)


def between(batches: Iterable[pa.RecordBatch], start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the records from ``start`` to ``end``, exclusive, of batches in the order of their offsets."""
    for batch in batches:
        first, stop = int64_values(batch.column("offset")).searchsorted([start, end])
        if first < stop:
            yield batch.slice(first, stop - first)
