"""Lists the objects of an archive."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.folders.contract import FileInfo, Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.readers.archive.layout import ArchiveLayout
from tidegate.readers.archive.objects import ArchivedObject
from tidegate.readers.objects.partitions import is_hidden
from tidegate.readers.places.place import Place

_THREADS = 8


def directories_of(
    layout: ArchiveLayout, partitions: Collection[tuple[str, int]], *, option: str = "archive"
) -> dict[tuple[str, int], Directory]:
    """Return the directory of each partition.

    Raises ConnectorError if the place cannot be listed, DeadlineError if it does not answer, and OptionError if it has
    no bucket, or is malformed.  Raises the errors of ``ArchiveLayout.objects_in``.
    """

    def listed(path: str) -> Mapping[tuple[str, int], Collection[ArchivedObject]]:
        files = _files(archived_folder(layout.place, path, option=option), nested=layout.is_nested)
        return layout.objects_in(path, {name: info.bytes for name, info in files})

    found: dict[tuple[str, int], list[ArchivedObject]] = {partition: [] for partition in partitions}
    with ThreadPoolExecutor(_THREADS, "tidegate-archive") as threads:
        for objects in threads.map(listed, {layout.folder_of(*partition) for partition in partitions}):
            for partition in found.keys() & objects.keys():
                found[partition] += objects[partition]
    return {partition: Directory(objects) for partition, objects in found.items()}


def archived_folder(place: Place, path: str, *, option: str = "archive") -> Folder:
    """Return a folder of an archive.  Raises OptionError if the place is malformed."""
    folder = open_folder(place.location, place.connection, option=option, noun="archive")
    for name in filter(None, path.split("/")):
        folder = folder.within(name)
    return folder


def _files(folder: Folder, path: str = "", *, nested: bool) -> Iterator[tuple[str, FileInfo]]:
    """Yield the files of a folder by their paths in it; hidden folders, such as those of Spark, are left out."""
    for name, info in folder.files().items():
        yield f"{path}{name}", info
    for name in folder.folders() if nested else ():
        if not is_hidden(name):
            yield from _files(folder.within(name), f"{path}{name}/", nested=True)
