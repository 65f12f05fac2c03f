"""Plans the objects that a run of an archive writes, from Kafka or merged from small ones, and writes one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, cast

import pyarrow as pa

from tidegate.alignment.splits import Extent, Horizon, SplitId, SplitRange
from tidegate.enumerators.archive.listing import ParquetArchive, archived_folder, folder_of
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.enumerators.kafka.topics import topic_id_text
from tidegate.jobs.archive.tables import TablePiece, TargetTable
from tidegate.readers.archive.directory import ArchivedPart, Directory
from tidegate.readers.archive.objects import ArchivedObject, in_order, parse_name
from tidegate.readers.archive.parquet import write_object
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.reader import KafkaDetails
from tidegate.readers.kafka.rows import arrow_schema
from tidegate.readers.places.place import Place
from tidegate.sources.kafka.source import KafkaSource

_COLUMNS = arrow_schema(include_headers=True)
OBJECT_BYTES = 256 << 20
"""About the bytes of an object, as Kafka stores its records."""
KEPT_S = 86_400.0
"""How long merged objects are kept for queries with an older listing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range that becomes one object.  Picklable: an executor copies it."""

    source: KafkaSource
    place: Place
    task: ReadTask
    obj: ArchivedObject

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield its records from Kafka."""
        return self.source.reader(None).read(self.task)


@dataclass(frozen=True, slots=True)
class MergedObject:
    """Parts of objects that become one object.  Picklable: an executor merges them."""

    place: Place
    parts: tuple[ArchivedPart, ...]
    obj: ArchivedObject

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield their records from the archive."""
        for part in self.parts:
            yield from ParquetArchive(self.place).read(part, _COLUMNS)


class Lost(NamedTuple):
    """Offsets that Kafka has deleted, and the archive lacks: from ``first`` to ``last``, inclusive."""

    split_id: SplitId
    first: int
    last: int


class Margin(NamedTuple):
    """How far Kafka's retention is behind the archive: in ms, from Kafka's first record to the first unarchived one."""

    ms: int
    split_id: SplitId


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """What one run copies.

    margin: the least of all partitions with archived records and new ones, or None.
    """

    pieces: list[Piece | TablePiece]
    lost: list[Lost]
    margin: Margin | None
    directories: Mapping[SplitId, Directory]


class Copied(NamedTuple):
    """The records and the bytes of an object that was written."""

    records: int
    bytes: int


def plan_archive(source: KafkaSource, out: Place | TargetTable) -> ArchivePlan:
    """Return what Kafka holds now and the archive lacks, up to the ends of the source.

    out: where the archive is.

    Raises OptionError if the archive holds records of another topic of the same name, DataLossError if it holds records
    that Kafka has lost, and the errors of a source and of a listing.
    """
    enumerator, named = source.enumerator(None), f"--out is {out.location!r}"
    assert isinstance(enumerator, KafkaEnumerator)  # noqa: S101 - for mypy
    with closing(enumerator):
        splits = enumerator.discover()
        extents, stops = enumerator.extents(splits), enumerator.stops(splits)
        partitions = {TopicPartition.of(split): split for split in splits}
        if isinstance(out, Place):
            listed = ParquetArchive(out).list_files(partitions, None, "--out").directories
        else:
            listed = out.directories(partitions)
        directories = {split: listed[partition] for partition, split in partitions.items()}
        ends = enumerator.ends_under({split: directory.leader_epoch for split, directory in directories.items()})
        for split, extent in extents.items():
            topic_id = topic_id_text(enumerator.details(SplitRange(split, extent.begin, extent.begin)).topic_id)
            directories[split].check_topic(named, split, topic_id)
            directories[split].check_end(named, split, min(extent.end, ends.get(split, extent.end)))
        missing = [
            SplitRange(split, start, end)
            for split, extent in extents.items()
            for start, end in directories[split].holes(extent.begin, _least(extent.end, stops[split]))
        ]
        oldest = {r.split_id: r.start for r in reversed(missing)}
        heads = enumerator.peek(oldest, Horizon())  # also shows the size of records
        margins = []
        for split, kept in enumerator.peek({s: extents[s].begin for s in oldest}, Horizon()).items():
            if kept is not None and (head := heads[split]) is not None and directories[split]:
                margins.append(Margin(max(0, head.event_time_ms - kept.event_time_ms), split))
        piece_of = _object_of(source, out) if isinstance(out, Place) else out.piece_of(source)
        pieces = [
            piece_of(part, enumerator.details(part))
            for whole in missing
            for part in pieces_of(whole, enumerator.cost({whole.split_id: whole}).bytes)
        ]
    return ArchivePlan(pieces, _lost(directories, extents), min(margins, default=None), directories)


def pieces_of(whole: SplitRange, size: int) -> Collection[SplitRange]:
    """Cut a range into even pieces of at most about OBJECT_BYTES, by its estimated size in bytes."""
    offsets = whole.end - whole.start
    count = min(offsets, max(1, -(-size // OBJECT_BYTES)))
    cuts = [whole.start + offsets * number // count for number in range(count + 1)]
    return [SplitRange(whole.split_id, start, end) for start, end in pairwise(cuts)]


def copy(piece: Piece | MergedObject) -> Copied:
    """Write the object of a piece.  Called on an executor; a repeated call writes the same object again.

    Raises DataLossError if Kafka has deleted records of it, and the errors of the reader and of the place.
    """
    obj, records = write_object(piece.place, piece.obj, _COLUMNS, piece.batches())
    return Copied(records, obj.size)


def _object_of(source: KafkaSource, place: Place) -> Callable[[SplitRange, KafkaDetails], Piece]:
    def piece_of(part: SplitRange, details: KafkaDetails) -> Piece:
        obj = _empty(TopicPartition.of(part.split_id), part, details)
        return Piece(source, place, ReadTask((part,), (details,)), obj)

    return piece_of


def _least(end: int, stop: int | None) -> int:
    return end if stop is None else min(end, stop)


def _empty(partition: TopicPartition, part: SplitRange, details: KafkaDetails) -> ArchivedObject:
    folder, topic_id = f"{partition.topic}/{partition.partition}", topic_id_text(details.topic_id)
    return ArchivedObject(folder, 0, part.start, part.end, -1, -1, topic_id, leader_epoch=details.leader_epoch)


def _lost(directories: Mapping[SplitId, Directory], extents: Mapping[SplitId, Extent]) -> list[Lost]:
    """Return what is missing between archived records, or between them and Kafka's first record."""
    return [
        Lost(split, start, end - 1)
        for split, extent in extents.items()
        if (first := directories[split].first) is not None
        for start, end in directories[split].holes(first, extent.begin)
    ]


def merges_of(place: Place, directory: Directory) -> list[MergedObject]:
    """Return the merges of neighbours, each into at most about OBJECT_BYTES.

    An object is merged with what follows once that is half as large, so no record is written again by every run.
    A merged object begins where its first part does, and is longer, so a directory reads it, and not its parts.
    """
    neighbours: list[list[ArchivedPart]] = []
    for part in directory.parts:
        neighbours.append([part])
        while len(neighbours) > 1 and _are_merged(*neighbours[-2:]):
            following = neighbours.pop()
            neighbours[-1] += following
    merged = [[parts[0]._replace(start=_object(parts[0]).first), *parts[1:]] for parts in neighbours if len(parts) > 1]
    return [
        MergedObject(
            place,
            tuple(parts),
            _object(parts[0])._replace(next=parts[-1].end, leader_epoch=_object(parts[-1]).leader_epoch),
        )
        for parts in merged
    ]


def _object(part: ArchivedPart) -> ArchivedObject:
    (obj,) = part.files  # objects of our own do not overlap in a directory
    return cast("ArchivedObject", obj)


def _are_merged(group: list[ArchivedPart], following: list[ArchivedPart]) -> bool:
    size, more = (sum(_object(part).size for part in parts) for parts in (group, following))
    return group[-1].end == following[0].start and size <= 2 * more and size + more <= OBJECT_BYTES


def delete_merged(place: Place, partition: TopicPartition) -> int:
    """Delete the objects that no query reads, because others have held their records for a day; return their number.

    Raises the errors of a listing.
    """
    path = folder_of(partition)
    folder = archived_folder(place, path, option="--out")
    written_s = {
        obj: info.written_s
        for name, info in folder.files().items()
        if (obj := parse_name(path, name, info.bytes)) is not None
    }
    unread = unread_since(written_s, time.time() - KEPT_S)
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
