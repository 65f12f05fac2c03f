"""The objects that ``tidegate archive`` writes: their names, so that a listing is enough to plan.

The records of a partition from one offset to another are one object in the folder ``TOPIC/PARTITION`` of the archive:

    orders/0/00000000000000001000.00000000000000002000.1764547200000.1764550799999.3wPRAVyyQuWBJIrTXdHuzg.4.875bd03c.parquet

That is its first offset, its next offset, the least and the greatest timestamp of its records in ms, the id of the
topic, the leader epoch under which it was planned, and a checksum of all this and the folder.  Without records, both
timestamps are -1.  Old brokers tell no id, whose place is empty then, or no leader epoch, which is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

import numpy as np

from tidegate.errors import CorruptDataError
from tidegate.readers.archive.directory import Directory, Files

_NAME = re.compile(r"(\d{20})\.(\d{20})\.(-?\d+)\.(-?\d+)\.([\w-]*)(?:\.(\d+))?\.[0-9a-f]{8}\.parquet", re.ASCII)
_LEAST_BYTES = 12  # of a file of Parquet


class ArchivedObject(NamedTuple):
    """An object of an archive: all records of a partition from ``first`` to ``next``, exclusive.

    folder: the topic and the partition, such as ``orders/0``.
    min_ms, max_ms: the least and the greatest timestamp of its records in ms; -1: it has none.
    topic_id: as Kafka's tools show it; empty: unknown.
    leader_epoch: no record is of a later leader epoch; None: unknown.
    """

    folder: str
    size: int
    first: int
    next: int
    min_ms: int
    max_ms: int
    topic_id: str
    leader_epoch: int | None = None

    @property
    def name(self) -> str:
        """The name in the folder of the partition."""
        epoch = "" if self.leader_epoch is None else f".{self.leader_epoch}"
        what = f"{self.first:020d}.{self.next:020d}.{self.min_ms}.{self.max_ms}.{self.topic_id}{epoch}"
        return f"{what}.{crc32(f'{self.folder}/{what}'.encode()):08x}.parquet"

    @property
    def path(self) -> str:
        """The name in the archive, which the object also has in its footer."""
        return f"{self.folder}/{self.name}"


def directory_of(objects: Iterable[ArchivedObject]) -> Directory:
    """Return the directory of some objects of one partition.

    Objects may overlap, since two archivers or a run that was killed may have copied the same records.  Then an offset
    is read from the object that begins first; of those with one beginning, from the longest.
    """
    taken: list[ArchivedObject] = []
    starts: list[int] = []
    reached = 0
    for obj in in_order(objects):
        if obj.next > reached:
            taken.append(obj)
            starts.append(max(obj.first, reached))
            reached = obj.next
    if not taken:
        return Directory()
    first, following = np.array(starts), np.array([obj.next for obj in taken])
    whole = following - np.array([obj.first for obj in taken])
    size = np.array([obj.size for obj in taken]) * (following - first) // whole
    max_ms = np.array([obj.max_ms for obj in taken])
    files = Files(first, following, max_ms, np.ones(len(taken), np.bool_), size, taken.__getitem__)
    ids = {obj.topic_id for obj in taken} - {""}
    return Directory(files, topic_ids=ids, leader_epoch=taken[-1].leader_epoch)


def in_order(objects: Iterable[ArchivedObject]) -> list[ArchivedObject]:
    """Return objects in the order in which a directory takes their records."""
    return sorted(objects, key=lambda obj: (obj.first, -obj.next, obj.path))


def parse_name(folder: str, name: str, size: int) -> ArchivedObject | None:
    """Return the object of a name in the listing of a partition's folder.

    Returns None for a name that no archived object has, and for a file that is too small, because the machine of its
    writer crashed.  Raises CorruptDataError for an object that has got another name since it was written: a plan that
    believed its offsets and times could skip records without ever opening it.
    """
    match = _NAME.fullmatch(name)
    if match is None or size < _LEAST_BYTES:
        return None
    first, following, min_ms, max_ms = map(int, match.groups()[:4])
    epoch = None if match[6] is None else int(match[6])
    obj = ArchivedObject(folder, size, first, following, min_ms, max_ms, match[5], epoch)
    if obj.name != name or first >= following:
        raise CorruptDataError(
            f"the archived object {folder}/{name} has another name than when it was written, as its checksum says; "
            "rename it back, or delete it"
        )
    return obj
