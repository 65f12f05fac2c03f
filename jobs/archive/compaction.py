"""Merges small objects of an archive, and deletes the ones that were merged."""

from __future__ import annotations

import time

from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.archive.listing import listing_of
from tidegate.jobs.archive.pieces import OBJECT_BYTES, Merge
from tidegate.readers.archive.objects import ArchivedPart
from tidegate.readers.archive.place import ArchivePlace
from tidegate.readers.kafka.config import TopicPartition

__all__ = ["delete_merged", "merges_of"]

KEPT_S = 86_400.0
"""How long merged objects are kept for queries with an older listing."""


def merges_of(place: ArchivePlace, directory: Directory) -> list[Merge]:
    """Return the merges of neighbours, each into at most about OBJECT_BYTES.

    A merged object begins where its first part does, and is longer.  So a directory reads it, and not its parts.
    """
    neighbours: list[list[ArchivedPart]] = []
    for part in directory.parts:
        group = neighbours[-1] if neighbours else []
        touches = bool(group) and group[-1].end == part.start
        if touches and sum(before.obj.size for before in group) + part.obj.size <= OBJECT_BYTES:
            group.append(part)
        else:
            neighbours.append([part._replace(start=part.obj.first)])
    return [
        Merge(place, tuple(parts), parts[0].obj._replace(next=parts[-1].end)) for parts in neighbours if len(parts) > 1
    ]


def delete_merged(place: ArchivePlace, partition: TopicPartition) -> int:
    """Delete the objects that no query reads, because others have held their records for a day; return their number.

    Raises the errors of a listing.
    """
    folder, written_s = listing_of(place, *partition, option="--out")
    directory, now_s = Directory(written_s), time.time()
    read = {part.obj for part in directory.parts}
    deleted = 0
    for obj in written_s.keys() - read:
        if all(now_s - written_s[part.obj] > KEPT_S for part in directory.within(obj.first, obj.next)):
            folder.delete(obj.name)
            deleted += 1
    return deleted
