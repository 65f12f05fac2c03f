"""The contract of an archive: which files hold which offsets of a partition, and how their records are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from heapq import heappop, heappush
from itertools import count, islice
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.archive.directory import ArchivedPart, Directory
from tidegate.readers.arrow.arrays import int64_values, integers, within_bounds

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""


class Listing(NamedTuple):
    """What an archive holds of some partitions.

    version: the version that was listed, which an offset carries; None: the archive has no versions, because no record
        in it ever changes.
    """

    version: int | None
    directories: Mapping[Partition, Directory]


class Group(NamedTuple):
    """A stretch of a file that is read as a whole, such as a row group of Parquet.

    first, last: no record of it has an offset outside, and both may be estimates.
    max_ms: no record of it has a later timestamp in ms.
    """

    number: int
    first: int
    last: int
    max_ms: int


class OpenFile(Protocol):
    """A file that is being read.  groups: all its groups with records of the partition."""

    groups: list[Group]

    def read(
        self, number: int, start: int, end: int, schema: pa.Schema, ahead: Iterable[int] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a group from ``start`` to ``end``, exclusive, in the order of their offsets.

        schema: the wanted columns, among them ``offset``.
        ahead: the groups that are likely to be read next.

        Each offset comes once.  Raises CorruptDataError for an offset with two different records.
        """


class Archive(ABC):
    """Finds the files of partitions, with their offsets and times, and reads them.

    location: where the archive is, for errors; never a secret.

    Picklable: the driver lists the files, and executors read them.  An archive never guesses an offset: where a file
    does not say the offset of each record, it raises CorruptDataError.
    """

    location: str

    @abstractmethod
    def list_files(self, partitions: Collection[Partition], version: int | None, option: str = "archive") -> Listing:
        """Return the directory of each partition, at a version; None: at the newest one.

        option: how errors name the option with the location.

        Called on the driver.  A version that is gone is replaced by the newest.  Raises ConnectorError if the place
        cannot be listed, DeadlineError if it does not answer, CorruptDataError if it holds what cannot be planned by,
        and OptionError if this is not such an archive.
        """

    @abstractmethod
    def open(self, file: Any) -> AbstractContextManager[OpenFile]:
        """Open a file, to read it.

        While it is open, raises CorruptDataError, which names the file, if it is damaged or does not hold what was
        listed.  Raises ObjectGoneError if it was deleted, and ConnectorError or DeadlineError if it cannot be fetched.
        """

    def groups_of(self, file: Any) -> list[Group]:
        """Return all groups of a file.  Raises the errors of ``open``."""
        with self.open(file) as opened:
            return opened.groups

    def read(self, part: ArchivedPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records of a part in the order of their offsets, each once, in batches of a bounded size.

        schema: the wanted columns, among them ``offset``.

        Raises the errors of ``open``.
        """
        with ExitStack() as stack:

            def units_of(file: Any) -> Iterator[Unit]:
                mine = stack.enter_context(ExitStack())
                opened = mine.enter_context(self.open(file))
                groups = [group for group in opened.groups if group.last >= part.start and group.first < part.end]
                numbers = [group.number for group in sorted(groups, key=lambda group: group.first)]
                left = set(numbers)

                def read(number: int) -> Iterator[pa.RecordBatch]:
                    ahead = numbers[numbers.index(number) :]
                    yield from opened.read(number, part.start, part.end, schema, ahead)
                    left.discard(number)
                    if not left:
                        mine.close()

                return ((group, partial(read, group.number)) for group in groups)

            for batch in in_offset_order(part.files, units_of, part.start, part.end):
                yield from within_bounds(batch)

    def newest_parts(self, partition: Partition, start: int, end: int) -> tuple[list[ArchivedPart], int]:
        """Return where the newest version holds a range, and up to which offset; called on executors.

        The files that a plan has named are gone: a table was rewritten, and its old files were deleted.
        """
        del partition, end
        return [], start


Unit: TypeAlias = tuple[Group, Callable[[], Iterable[pa.RecordBatch]]]
"""A group, and what reads its records in the order of their offsets."""


def in_offset_order(
    files: Iterable[Any], units_of: Callable[[Any], Iterable[Unit]], start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of files from ``start`` to ``end``, exclusive, in the order of their offsets, each once.

    A group is read when its turn comes.  Only the records of groups that overlap are held.
    """
    waiting = deque(sorted(files, key=lambda file: (file.first, file.path)))
    units: list[tuple[int, int, Unit]] = []
    held: list[pa.RecordBatch] = []
    number = count()
    while waiting or units:
        while waiting and (not units or waiting[0].first <= units[0][0]):
            for unit in units_of(waiting.popleft()):
                if unit[0].last >= start and unit[0].first < end:
                    heappush(units, (unit[0].first, next(number), unit))
        if not units:
            continue
        _, _, (group, read) = heappop(units)
        coming = min([end, *(first for first, *_ in units[:1]), *(file.first for file in islice(waiting, 1))])
        if not held and group.last < coming:
            yield from between(read(), start, end)
            continue
        merged = in_order([*held, *between(read(), start, end)])
        yield from between(merged, start, coming)
        held = list(between(merged, coming, end))
    yield from held


def in_order(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return records in the order of their offsets, each once.

    Raises CorruptDataError if two records of one offset differ.
    """
    rows = pa.Table.from_batches(batches).combine_chunks() if (batches := list(batches)) else None
    if rows is None or not rows.num_rows:
        return []
    offsets = int64_values(rows["offset"].chunk(0))
    if (offsets[1:] <= offsets[:-1]).any():
        order = np.argsort(offsets, kind="stable")
        offsets = offsets[order]
        rows = rows.take(integers(order, pa.int64()))
        again = np.flatnonzero(offsets[1:] == offsets[:-1])
        if len(again):
            _check_equal(rows, again)
            rows = rows.take(integers(np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 1)), pa.int64()))
    return [part for batch in rows.combine_chunks().to_batches() for part in within_bounds(batch)]


def _check_equal(rows: pa.Table, again: np.typing.NDArray[np.int64]) -> None:
    for row in again.tolist():
        if rows.slice(row, 1) != rows.slice(row + 1, 1):
            one, other = rows.slice(row, 2).to_pylist()
            where = f"{one['topic']}-{one['partition']}" if "topic" in one else "a partition"
            differ = ", ".join(name for name in one if one[name] != other[name])
            raise CorruptDataError(
                f"the archive holds offset {one['offset']} of {where} twice, with different contents ({differ}): "
                "delete the wrong record"
            )


def between(batches: Iterable[pa.RecordBatch], start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the records from ``start`` to ``end``, exclusive, of batches in the order of their offsets."""
    for batch in batches:
        first, stop = int64_values(batch.column("offset")).searchsorted([start, end])
        if first < stop:
            yield batch.slice(first, stop - first)
