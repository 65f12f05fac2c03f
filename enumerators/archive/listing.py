"""The archive that ``tidegate archive`` writes: a listing of its folders is enough to plan."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from typing_extensions import override

from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.errors import OptionError
from tidegate.readers.archive.archive import Listing, Partition
from tidegate.readers.archive.directory import Directory
from tidegate.readers.archive.objects import directory_of, parse_name
from tidegate.readers.archive.parquet import ParquetObjects
from tidegate.readers.places.place import Place

_THREADS = 8
_LOGS = {"_delta_log": ("a Delta", ".json", "delta:"), "metadata": ("an Iceberg", ".metadata.json", "iceberg:")}
"""The folder with a table's log, what kind of table it is, how names of files there end, and how tables are named."""


class ParquetArchive(ParquetObjects):
    """Kafka's columns in Parquet objects, whose names show their offsets and times."""

    @override
    def list_files(self, partitions: Collection[Partition], version: int | None, option: str = "archive") -> Listing:
        del version  # an object never changes

        def listed(partition: Partition) -> Directory:
            path = folder_of(partition)
            files = archived_folder(self.place, path, option=option).files()
            named = (parse_name(path, name, info.bytes) for name, info in files.items())
            return directory_of(obj for obj in named if obj is not None)

        with ThreadPoolExecutor(_THREADS, "tidegate-archive") as threads:
            found = dict(zip(partitions, threads.map(listed, partitions), strict=True))
        if not any(found.values()):
            for path in ("", *sorted({topic for topic, _ in partitions})):
                _refuse_table(archived_folder(self.place, path, option=option), f"{option} is {self.location!r}")
        return Listing(None, found)


def folder_of(partition: Partition) -> str:
    """Return the folder of the archive that has the objects of a partition."""
    topic, number = partition
    return f"{topic}/{number}"


def archived_folder(place: Place, path: str, *, option: str = "archive") -> Folder:
    """Return a folder of an archive.  Raises OptionError if the place is malformed."""
    folder = open_folder(place.location, place.connection, option=option, noun="archive")
    for name in filter(None, path.split("/")):
        folder = folder.within(name)
    return folder


def _refuse_table(folder: Folder, named: str) -> None:
    """Raise OptionError for the folder of a table: among its files are rows that were deleted or replaced."""
    for name in _LOGS.keys() & set(folder.folders()):
        kind, ending, prefix = _LOGS[name]
        if any(file.endswith(ending) for file in folder.within(name).files()):
            raise OptionError(
                f"{named}, but {folder.address} is {kind} table, which is read by its log: name it after {prefix}"
            )
