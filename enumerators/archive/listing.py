"""Lists the objects of an archive."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.errors import OptionError
from tidegate.readers.archive.layout import ArchiveLayout
from tidegate.readers.places.place import Place

_THREADS = 8
_LOGS = {"_delta_log": ("a Delta", ".json"), "metadata": ("an Iceberg", ".metadata.json")}
"""The folder with a table's log, what kind of table it is, and how names of files there end."""


def directories_of(
    layout: ArchiveLayout, partitions: Collection[tuple[str, int]], *, option: str = "archive"
) -> dict[tuple[str, int], Directory]:
    """Return the directory of each partition.

    Raises ConnectorError if the place cannot be listed, DeadlineError if it does not answer, CorruptDataError for an
    object that was renamed, and OptionError if the place has no bucket, is malformed, or is a table.
    """

    def listed(partition: tuple[str, int]) -> Directory:
        path = layout.folder_of(*partition)
        files = archived_folder(layout.place, path, option=option).files()
        return Directory(layout.objects_in(path, {name: info.bytes for name, info in files.items()}))

    with ThreadPoolExecutor(_THREADS, "tidegate-archive") as threads:
        found = dict(zip(partitions, threads.map(listed, partitions), strict=True))
    if not any(directory.parts for directory in found.values()):
        for path in ("", *sorted({topic for topic, _ in partitions})):
            _refuse_table(archived_folder(layout.place, path, option=option), f"{option} is {layout.place.location!r}")
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
