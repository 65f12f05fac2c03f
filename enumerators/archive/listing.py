"""Lists the objects of an archive."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.readers.archive.layout import ArchiveLayout
from tidegate.readers.places.place import Place

_THREADS = 8


def directories_of(
    layout: ArchiveLayout, partitions: Collection[tuple[str, int]], *, option: str = "archive"
) -> dict[tuple[str, int], Directory]:
    """Return the directory of each partition.

    Raises ConnectorError if the place cannot be listed, DeadlineError if it does not answer, and OptionError if it has
    no bucket, or is malformed.
    """

    def listed(partition: tuple[str, int]) -> Directory:
        path = layout.folder_of(*partition)
        files = archived_folder(layout.place, path, option=option).files()
        return Directory(layout.objects_in(path, {name: info.bytes for name, info in files.items()}))

    with ThreadPoolExecutor(_THREADS, "tidegate-archive") as threads:
        return dict(zip(partitions, threads.map(listed, partitions), strict=True))


def archived_folder(place: Place, path: str, *, option: str = "archive") -> Folder:
    """Return a folder of an archive.  Raises OptionError if the place is malformed."""
    folder = open_folder(place.location, place.connection, option=option, noun="archive")
    for name in filter(None, path.split("/")):
        folder = folder.within(name)
    return folder
