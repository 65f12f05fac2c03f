"""The notes of the archiver in the log of a table: the topic of its rows, and up to where they go.

Commits of the archiver carry them, as numbers by name: application transactions of Delta hold nothing else, and the
summaries of Iceberg's snapshots hold them as text.  A space keeps the names apart, since no topic's name has one.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

from tidegate.readers.archive.archive import Partition

NAMED = "tidegate.archive"

Noted: TypeAlias = Callable[[str], int | None]
"""Returns the number that the newest note of a name has; None: no commit of the archiver has one."""

_HALVES = struct.Struct(">qq")


def notes_of(partition: Partition, end: int, topic_id: UUID | None, leader_epoch: int | None) -> dict[str, int]:
    """Return the notes of rows up to an offset.

    topic_id, leader_epoch: those of the topic, and of the log that held the rows; None: unknown.
    """
    notes = {_end_name(partition): end}
    if topic_id is not None:
        notes.update(zip(_id_names(partition[0]), _HALVES.unpack(topic_id.bytes), strict=True))
    if leader_epoch is not None:
        notes[_epoch_name(partition)] = leader_epoch
    return notes


def noted_end(noted: Noted, partition: Partition) -> int:
    """Return up to which offset the archiver has written a partition; 0: it has not."""
    return noted(_end_name(partition)) or 0


def noted_topic_id(noted: Noted, topic: str) -> str:
    """Return the id of the topic whose rows the archiver has written, as Kafka's tools show it; empty: unknown."""
    names = _id_names(topic)
    if noted(names[0]) is None:
        return ""
    return urlsafe_b64encode(_HALVES.pack(*map(noted, names))).decode().rstrip("=")


def noted_epoch(noted: Noted, partition: Partition, end: int) -> int | None:
    """Return the last known leader epoch of the log that held the rows up to an offset; None: of rows of others."""
    return noted(_epoch_name(partition)) if end <= noted_end(noted, partition) else None


def _id_names(topic: str) -> tuple[str, str]:
    return f"{topic} id", f"{topic} id end"


def _end_name(partition: Partition) -> str:
    topic, number = partition
    return f"{topic}-{number}"


def _epoch_name(partition: Partition) -> str:
    return f"{_end_name(partition)} epoch"
