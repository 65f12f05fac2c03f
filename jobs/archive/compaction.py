"""Merges small objects of an archive, and deletes the ones that were merged."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tidegate.enumerators.archive.directory import Directory, in_order
from tidegate.enumerators.archive.records import archived_folder
from tidegate.jobs.archive.pieces import OBJECT_BYTES, MergedObject
from tidegate.readers.archive.objects import ArchivedObject, ArchivedPart
from tidegate.readers.archive.parquet import ParquetArchive
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.places.place import Place

KEPT_S = 86_400.0
"""How long merged objects are kept for queries with an older listing."""


def merges_of(place: Place, directory: Directory) -> list[MergedObject]:
    """Return the merges of neighbours, each into at most about OBJECT_BYTES.

    An object is merged with what follows once that is half as large, so no record is written again by every run.
    A merged object begins where its first part does, and is longer.  So a directory reads it, and not its parts.
    """
    neighbours: list[list[ArchivedPart]] = []
    for part in directory.parts:
        neighbours.append([part])
        while len(neighbours) > 1 and _are_merged(*neighbours[-2:]):
            following = neighbours.pop()
            neighbours[-1] += following
    merged = [[parts[0]._replace(start=parts[0].obj.first), *parts[1:]] for parts in neighbours if len(parts) > 1]
    return [
        MergedObject(
            place,
            tuple(parts),
            parts[0].obj._replace(next=parts[-1].end, leader_epoch=parts[-1].obj.leader_epoch),
        )
        for parts in merged
    ]


def _are_merged(group: list[ArchivedPart], following: list[ArchivedPart]) -> bool:
    size, more = (sum(part.obj.size for part in parts) for parts in (group, following))
    return group[-1].end == following[0].start and size <= 2 * more and size + more <= OBJECT_BYTES


def delete_merged(place: Place, partition: TopicPartition) -> int:
    """Delete the objects that no query reads, because others have held their records for a day; return their number.

    Raises the errors of a listing.
    """
    archive = ParquetArchive(place)
    path = archive.folder_of(*partition)
    folder = archived_folder(place, path, option="--out")
    files = folder.files()
    objects = archive.objects_in(path, {name: info.bytes for name, info in files.items()})
    unread = unread_since({obj: files[obj.name].written_s for obj in objects}, time.time() - KEPT_S)
    for obj in unread:
        folder.delete(obj.name)
    return len(unread)


def unread_since(written_s: Mapping[ArchivedObject, float], since_s: float) -> list[ArchivedObject]:
    """Return the objects that nobody reads who lists them at or after a time.

    written_s: when each object was written.
    """
    unread, reached = [], 0
    for obj in in_order(written_s):
        if obj.next <= reached:
            unread.append(obj)
        elif written_s[obj] < since_s:
            reached = obj.next
    return unread
