"""A table as an archive: its files by the statistics of its log.

The log is read by the table's own library (delta.py, iceberg.py).  It decides which files, which rows of them and which
columns there are at a version.  The files are Parquet, and are read here.
"""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from tidegate.errors import ConnectorError, ObjectGoneError, OptionError, TidegateError, counted
from tidegate.readers.archive.archive import Archive, Listing, Partition
from tidegate.readers.archive.columns import TableColumns
from tidegate.readers.archive.directory import ArchivedPart, Directory, Files
from tidegate.readers.archive.notes import Noted, noted_topic_id
from tidegate.readers.archive.parquet import opened_parquet
from tidegate.readers.archive.table_file import OpenTable, TableFile, where
from tidegate.readers.arrow import compute as pc
from tidegate.readers.places.place import Place
from tidegate.readers.s3.config import S3ConnectionConfig

_LOG = logging.getLogger("tidegate.planner")
_EVER = 2**63 - 1
_THREADS = 8
_MANY = 100  # opened files, from which on a user should know why a plan takes long
_COLORS = re.compile(r"\x1b\[[\d;]*m")
_CREDENTIALS = re.compile(r"[^\s/:@'\"]+:[^\s/@'\"]*@(?=\S)")


Bounds: TypeAlias = tuple[pa.Array, pa.Array]
"""The least and the greatest value of a column in each file."""

GetFile: TypeAlias = Callable[[int, str, int, int, int], TableFile]
"""Returns the file of a number, for a topic, a partition, and its first and next offset of it."""


class TableFiles(NamedTuple):
    """The data files of a table at a version, as arrays.

    topic, partition, offset: the bounds of the columns, both inclusive, each a pair of arrays; the offset's are -1
        where the log does not say them, or those of the partition.
    max_ms: the greatest timestamp; without one the greatest int64.
    is_whole: whether no row of the file was deleted.
    noted: the notes of the archiver up to that version.
    get: returns the file of a number for a partition.
    """

    version: int
    topic: tuple[pa.Array, pa.Array]
    partition: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    offset: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    max_ms: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    is_whole: npt.NDArray[np.bool_]
    noted: Noted
    get: GetFile

    @classmethod
    def of_bounds(
        cls,
        version: int,
        topic: Bounds,
        partition: Bounds,
        offset: Bounds,
        *others: Any,
    ) -> TableFiles:
        """Return files by the bounds of their columns; a null is unknown.  others: from ``max_ms`` on."""
        texts = topic[0].cast(pa.string()), topic[1].cast(pa.string())
        parts, offsets = (
            [pc.fill_null(bound.cast(pa.int64()), -1).to_numpy() for bound in pair] for pair in (partition, offset)
        )
        known = (parts[0] >= 0) & (parts[1] >= 0) & (offsets[1] >= 0)
        known &= where(pc.and_(pc.is_valid(texts[0]), pc.is_valid(texts[1])))
        least, most = (np.where(known, bound, -1) for bound in offsets)
        return cls(version, texts, (parts[0], parts[1]), (least, most), *others)


class TableArchive(Archive):
    """The files of a table whose rows are records.

    location: the option's text.
    columns: where Kafka's columns are in it.
    """

    def __init__(self, location: str, columns: TableColumns, connection: S3ConnectionConfig | None = None) -> None:
        self.location, self._columns = location, columns
        self._connection = connection or S3ConnectionConfig()
        self._surveys: dict[tuple[str, Any], dict[Partition, tuple[int, int, int]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was read."""
        return {**self.__dict__, "_surveys": {}}

    @abstractmethod
    def files_at(self, version: int | None, option: str) -> TableFiles:
        """Return the data files at a version, or at the newest if that is None or gone."""

    def deleted_rows(self, file: TableFile) -> npt.NDArray[np.int64]:
        """Return the numbers of the deleted rows of a file, in order."""
        del file
        return np.empty(0, np.int64)

    def paths_in(self, file: TableFile, parquet: pq.ParquetFile) -> dict[str, str]:
        """Return the dotted path of each column in a file; a column that the file lacks may be left out."""
        del parquet
        return dict(file.paths)

    def place_of(self, path: str) -> tuple[Place, str]:
        """Return the place and the name of a file."""
        folder, _, name = path.rpartition("/")
        return Place(folder or "/", self._connection), name

    @override
    def list_files(self, partitions: Collection[Partition], version: int | None, option: str = "archive") -> Listing:
        files = self.files_at(version, option)
        try:
            surveyed = self._surveyed(files)
            return Listing(files.version, {p: self._directory(files, p, surveyed) for p in partitions})
        except ObjectGoneError as error:  # where a file must be opened to be planned by
            newest = self.files_at(None, option).version
            if newest == files.version:
                raise
            _LOG.warning("%s; of %s version %s is read in place of %s", error, self.location, newest, files.version)
            return self.list_files(partitions, None, option)

    @override
    def newest_parts(self, partition: Partition, start: int, end: int) -> tuple[list[ArchivedPart], int]:
        directory = self.list_files([partition], None).directories[partition]
        return list(directory.within(start, end)), min(max(directory.end, start), end)

    def _surveyed(self, files: TableFiles) -> npt.NDArray[np.int64]:
        """Open the files without statistics once, and return their numbers."""
        unknown = np.flatnonzero(files.offset[0] < 0)
        if len(unknown) > _MANY:
            _LOG.warning(
                "%s has %s without statistics of partition and offset, which are opened once",
                self.location,
                counted(len(unknown), "file"),
            )
        with ThreadPoolExecutor(_THREADS, "tidegate-archive") as threads:
            list(threads.map(lambda number: self._survey(files, number), unknown.tolist()))
        return unknown

    def _survey(self, files: TableFiles, number: int) -> dict[Partition, tuple[int, int, int]]:
        """Return first, next and greatest time of each partition in a file, by its rows."""
        file = files.get(number, "", 0, 0, _EVER)
        key = file.path, file.deleted
        if key not in self._surveys:
            with self.open(file) as opened:
                self._surveys[key] = opened.survey()
        return self._surveys[key]

    def _directory(self, files: TableFiles, partition: Partition, surveyed: npt.NDArray[np.int64]) -> Directory:
        topic, number = partition
        low, high = files.topic
        may = where(pc.and_(pc.less_equal(low, topic), pc.greater_equal(high, topic)))
        sure = where(pc.and_(pc.equal(low, topic), pc.equal(high, topic)))
        (least, most), (first, last) = files.partition, files.offset
        numbers = np.flatnonzero(may & (least <= number) & (most >= number) & (first >= 0))
        sure = (sure & (least == number) & (most == number) & files.is_whole)[numbers]
        max_ms = files.max_ms[numbers]
        exact = sure & (max_ms < _EVER)
        held = _Held(numbers, first[numbers], last[numbers] + 1, max_ms, sure, exact)
        for extreme, bounds in ((np.argmax, held.next), (np.argmin, held.first)):
            while len(numbers) and not held.is_sure[at := int(extreme(bounds))]:
                held.put(at, self._survey(files, int(numbers[at])).get(partition))
        for unknown in surveyed.tolist():
            held = held.with_one(unknown, self._survey(files, unknown).get(partition))
        return held.directory(files, partition)

    @contextmanager
    @override
    def open(self, file: TableFile) -> Iterator[OpenTable]:
        place, name = self.place_of(file.path)
        with opened_parquet(place, name, file.size) as (parquet, source):
            yield OpenTable(parquet, source, file, self.paths_in(file, parquet), self.deleted_rows(file))


Errors: TypeAlias = tuple[type[Exception], ...]


@contextmanager
def raised_as_ours(named: str, library: str, lacking: Errors, refused: Errors, others: Errors) -> Iterator[None]:
    """Raise what a table's library raises as an error of one sentence.

    named: the option and its value.
    lacking, refused, others: the library's errors for no table, for one that it cannot read, and for all else.
    """
    try:
        yield
    except TidegateError:
        raise
    except lacking:
        raise OptionError(f"{named}, but there is no such table") from None
    except refused as error:
        raise OptionError(f"{named}, which {library} cannot read: {in_one_line(error)}") from None
    except others as error:
        raise ConnectorError(f"{named}, whose log cannot be read: {in_one_line(error)}") from None


def in_one_line(error: Exception) -> str:
    """Return what an error says, without credentials in its addresses.

    delta-rs draws the causes of an error as a tree, in colors, and has a trace behind others; SQLAlchemy has its
    statement.  The XML of a bucket may hold a session's token.
    """
    first, _, others = _COLORS.sub("", str(error)).partition("\n")
    causes = [cause for line in others.split("↳")[1:] if (cause := " ".join(line.split()))]
    return _CREDENTIALS.sub("***@", ": ".join([first, *causes]).partition(": <?xml")[0])


class _Held(NamedTuple):
    """The files that may hold records of a partition, with what is known of them."""

    numbers: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    next: npt.NDArray[np.int64]
    max_ms: npt.NDArray[np.int64]
    is_sure: npt.NDArray[np.bool_]  # whether first and next are of records of the partition
    is_exact: npt.NDArray[np.bool_]  # whether max_ms is

    def put(self, at: int, found: tuple[int, int, int] | None) -> None:
        """Take what a look into a file has found; None: no record of the partition."""
        self.first[at], self.next[at], self.max_ms[at] = found or (_EVER, -1, -1)
        self.is_sure[at] = self.is_exact[at] = True

    def with_one(self, number: int, found: tuple[int, int, int] | None) -> _Held:
        """Add a file of which only a look into it says anything."""
        if found is None:
            return self
        return _Held(*(np.append(one, new) for one, new in zip(self, (number, *found, True, True), strict=True)))

    def directory(self, files: TableFiles, partition: Partition) -> Directory:
        """Return the directory of the files that hold records."""
        order = np.argsort(self.first, kind="stable")
        order = order[self.next[order] >= 0]
        numbers, first, following = self.numbers[order], self.first[order], self.next[order]
        shares = files.partition[1][numbers] - files.partition[0][numbers] + 1

        def get(at: int) -> TableFile:
            return files.get(int(numbers[at]), *partition, int(first[at]), int(following[at]))

        size = files.size[numbers] // np.maximum(shares, 1)
        times = self.max_ms[order], self.is_exact[order]
        ids = {noted_topic_id(files.noted, partition[0])} - {""} if len(order) else ()
        held = Files(first, following, *times, size, get)
        return Directory(held, topic_ids=ids, holds_gaps=True)
