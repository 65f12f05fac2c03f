"""Lists the objects of an archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.readers.archive.objects import ArchivedObject, parse_name
from tidegate.readers.archive.place import ArchivePlace

__all__ = ["Listing", "list_partition", "listing_of"]


class Listing(NamedTuple):
    """The archived objects of a partition, when each was written, in seconds since the epoch, and their folder."""

    folder: Folder
    written_s: Mapping[ArchivedObject, float]


def list_partition(place: ArchivePlace, topic: str, partition: int, *, option: str = "archive") -> Directory:
    """Return the directory of a partition.  Raises the errors of ``listing_of``."""
    return Directory(listing_of(place, topic, partition, option=option).written_s)


def listing_of(place: ArchivePlace, topic: str, partition: int, *, option: str) -> Listing:
    """Return the archived objects of a partition; other files are left out.

    Raises ConnectorError if the place cannot be listed, DeadlineError if it does not answer, and OptionError if it has
    no bucket, or is malformed.
    """
    folder = open_folder(place.location, place.connection, option=option, noun="archive")
    folder = folder.within(topic).within(str(partition))
    files = folder.files().items()
    named = ((parse_name(f"{topic}/{partition}", name, info.bytes), info.written_s) for name, info in files)
    return Listing(folder, {obj: written_s for obj, written_s in named if obj is not None})
