"""The names of archived objects, so that a listing is enough to plan.

The records of a partition from one offset to another are one object in the folder ``TOPIC/PARTITION`` of the archive:

    orders/0/00000000000000001000.00000000000000002000.1764547200000.1764550799999.3wPRAVyyQuWBJIrTXdHuzg.4.parquet

That is its first offset, its next offset, the least and the greatest timestamp of its records in ms, the id of the
topic, and the leader epoch under which it was planned.  Without records, both timestamps are -1.  Old brokers tell no
id, whose place is empty then, or no leader epoch, which is left out.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

FOOTER_KEY = "tidegate.archive"
"""The key of the footer in the metadata of an object's file."""

_NAME = re.compile(r"(\d{20})\.(\d{20})\.(-?\d+)\.(-?\d+)\.([\w-]*)(?:\.(\d+))?\.parquet", re.ASCII)


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
        return f"{self.first:020d}.{self.next:020d}.{self.min_ms}.{self.max_ms}.{self.topic_id}{epoch}.parquet"

    @property
    def path(self) -> str:
        """The name in the archive."""
        return f"{self.folder}/{self.name}"

    @property
    def footer(self) -> str:
        """Which records the file holds, as the file itself says."""
        topic, _, partition = self.folder.rpartition("/")
        told = {"topic": topic, "partition": int(partition), "topicId": self.topic_id}
        return json.dumps({**told, "first": self.first, "next": self.next})


class ArchivedPart(NamedTuple):
    """The offsets of an object that are read from it, from ``start`` to ``end``, exclusive."""

    start: int
    end: int
    obj: ArchivedObject


def parse_name(folder: str, name: str, size: int) -> ArchivedObject | None:
    """Return the object of a name that a listing of a partition's folder shows; None: it is no archived object."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    first, following, min_ms, max_ms = map(int, match.groups()[:4])
    epoch = None if match[6] is None else int(match[6])
    obj = ArchivedObject(folder, size, first, following, min_ms, max_ms, match[5], leader_epoch=epoch)
    return obj if first < following else None
