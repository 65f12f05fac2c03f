"""Lists the objects of an archive."""

from __future__ import annotations

from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.folders.opening import open_folder
from tidegate.readers.archive.objects import parse_name
from tidegate.readers.archive.place import ArchivePlace

__all__ = ["list_partition"]


def list_partition(place: ArchivePlace, topic: str, partition: int, *, option: str = "archive") -> Directory:
    """Return the archived objects of a partition; other files are left out.

    Raises ConnectorError if the place cannot be listed, DeadlineError if it does not answer, and OptionError if it has
    no bucket, or is malformed.
    """
    folder = open_folder(place.location, place.connection, option=option, noun="archive")
    files = folder.within(topic).within(str(partition)).files()
    objects = (parse_name(f"{topic}/{partition}", name, info.bytes) for name, info in files.items())
    return Directory(obj for obj in objects if obj is not None)
