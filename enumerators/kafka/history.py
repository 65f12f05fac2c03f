"""The history of topics in an archive: a second place of the same records, at the same offsets.

Below the *seam* of a partition, its records come from the archive, and from it on from Kafka.  Only the enumerator and
the reader of Kafka know of it: to a plan, a partition has one begin, one end and one time index.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from tidegate.alignment.splits import Extent, Head, Horizon, Positions, SplitId, SplitRange
from tidegate.enumerators.archive.records import ArchivedRecords
from tidegate.enumerators.kafka.heads import HeadFinder
from tidegate.enumerators.kafka.topics import LogEnds, topic_id_text
from tidegate.errors import DataLossError, ObjectGoneError, OptionError, counted
from tidegate.readers.archive.archive import Archive
from tidegate.readers.archive.directory import ArchivedPart, Directory
from tidegate.readers.kafka.client import EARLIEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.reader import KafkaDetails
from tidegate.readers.kafka.rows import arrow_schema

_LOG = logging.getLogger("tidegate.planner")
_LISTED_FOR_S = 3600.0  # merged objects are kept for longer
_PINNED_FOR_S = 10.0  # a version of a table that batches read
_NEW_FOR_S = 60.0  # behind the listed objects, Kafka may be read without another look
_FOR_TIMESTAMPS = ("topic", "partition", "offset", "timestamp")
_NOTHING = Directory()
Find: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Head | None]
"""Returns the wanted record of some records, if it is among them."""


class TopicHistory:
    """The archived records of the partitions of an enumerator.

    A partition is listed when it is discovered.  It is listed again when Kafka has deleted records that the listing
    lacks, when the listing is read to its end, when it is an hour old, and when an object of it is gone.

    archive: where the records are.
    client: knows the ids of topics, and where their logs begin.
    find_head: reads event times from records.
    fail_on_data_loss: refuse the archive of another topic, and offsets that are in neither place; otherwise the archive
        of another topic counts as empty, and such offsets are skipped.
    """

    def __init__(
        self,
        archive: Archive,
        client: KafkaClient,
        find_head: HeadFinder,
        *,
        fail_on_data_loss: bool,
        version: int | None = None,
    ) -> None:
        self._archive, self._client, self._find_head = archive, client, find_head
        self._fail_on_data_loss = fail_on_data_loss
        self._named = f"archive is {archive.location!r}"
        self.version = version
        """The version that is read, which an offset carries; None: the archive has no versions."""
        schema = arrow_schema(include_headers=find_head.event_times.needs_headers)
        if find_head.event_times.by_record_timestamp:
            schema = pa.schema([schema.field(name) for name in _FOR_TIMESTAMPS])
        self._records = ArchivedRecords(archive, schema)
        self._directories: dict[TopicPartition, Directory] = {}
        self._listed_s: dict[TopicPartition, float] = {}
        self._begins: dict[TopicPartition, int] = {}  # of the logs, as a plan has seen them last
        self._missing: set[tuple[SplitId, int, int]] = set()
        self._warned: set[TopicPartition] = set()
        self._reads = False  # whether a batch has read of the listed version
        self._read: dict[SplitId, tuple[int, int]] = {}  # up to which offset, and how many
        self.epochs: dict[SplitId, int | None] = {}
        """The leader epoch under which each log is known to hold what is archived; None: unknown."""

    def discover(self, partitions: Collection[TopicPartition]) -> None:
        """List the archive of partitions that are new.

        Raises OptionError if it holds records of another topic of the same name, and the errors of a listing.
        """
        new = [partition for partition in partitions if partition not in self._directories]
        self._list(new, self.version)
        for partition in new if self._fail_on_data_loss else ():
            self._directories[partition].check_topic(self._named, partition.split_id, self._topic_id(partition))

    def _list(self, partitions: Collection[TopicPartition], version: int | None = None) -> None:
        """List partitions at a version; None: at the newest, in which all other partitions are then read as well."""
        if not partitions:
            return
        if version is None and self.version is not None:
            partitions = {*partitions, *self._directories}
        self.version, listed = self._archive.list_files(partitions, version)
        for partition in partitions:
            self._directories[partition] = listed[partition]
            self._listed_s[partition] = time.monotonic()
            self.epochs[partition.split_id] = listed[partition].leader_epoch

    def _directory(self, partition: TopicPartition) -> Directory:
        """Return what is archived of the present topic: another one of its name has other records."""
        directory = self._directories.get(partition, _NOTHING)
        return directory if directory.is_of(self._topic_id(partition)) else _NOTHING

    def _topic_id(self, partition: TopicPartition) -> str:
        return topic_id_text(self._client.topic_ids.get(partition.topic))

    def seam(self, partition: TopicPartition) -> int:
        """Return the offset from which on a partition is read from Kafka."""
        if self.earliest(partition) is None:
            return 0
        if partition not in self._begins:  # a batch that an earlier run planned
            self._begins[partition] = self._client.list_offsets({partition: EARLIEST})[partition][0]
        return self._directory(partition).seam(self._begins[partition])

    def earliest(self, partition: TopicPartition) -> int | None:
        """Return the first archived offset."""
        return self._directory(partition).first

    def begin(self, partition: TopicPartition, in_kafka: int) -> int:
        """Return the first offset of a partition in either place."""
        first = self.earliest(partition)
        return in_kafka if first is None else min(first, in_kafka)

    def extents(self, logs: LogEnds) -> dict[SplitId, Extent]:
        """Return the extents of partitions, which begin in the archive, after a new look at their logs.

        Raises OptionError if there is no archive at all, but Kafka has deleted records.
        """
        self._pin()
        moved = {p: begin for p, begin in logs.begins.items() if self._begins.get(p) != begin}
        self._begins.update(moved)
        self._list([p for p, begin in moved.items() if self._lacks(p, begin)])
        self._check_found(moved)
        return {s: replace(of, begin=self.begin(TopicPartition.of(s), of.begin)) for s, of in logs.extents.items()}

    def _pin(self) -> None:
        """Let a plan read the newest version of a table, if batches read of it."""
        if self.version is not None and self._reads and time.monotonic() - min(self._listed_s.values()) > _PINNED_FOR_S:
            self._list(self._directories)
            self._reads = False

    def _lacks(self, partition: TopicPartition, begin: int) -> bool:
        directory = self._directory(partition)
        return bool(directory.holes(directory.first or 0, begin))

    def _check_found(self, moved: Mapping[TopicPartition, int]) -> None:
        """Warn once of partitions without an archive.  moved: what Kafka has newly deleted."""
        without = {p: begin for p, begin in moved.items() if not self._directory(p)}
        deleted = {p: begin for p, begin in without.items() if begin and p not in self._warned}
        is_empty = not any(self._directories.values())
        if named := deleted or (without if is_empty else {}):
            first, others = min(named), len(named) - 1
            splits = f"{first.split_id} and {counted(others, 'other partition')}" if others else first.split_id
            what = f", but Kafka has deleted those before {deleted[first]}" if deleted else "; all come from Kafka"
            sentence = f"{self._named}, which holds no records of {splits}{what}"
            if deleted and is_empty:
                raise OptionError(sentence)
            self._warned.update(deleted)
            _LOG.warning("%s", sentence)

    def beyond(self, kept: Positions) -> list[SplitId]:
        """Return the splits whose archive passes the offset up to which Kafka has kept what it once had."""
        return [split for split, at in kept.items() if self._directory(TopicPartition.of(split)).end > at]

    def check_kept(self, split: SplitId, at: int) -> None:
        """Raise DataLossError if the archive passes this offset: its records are not those that Kafka has now."""
        self._directory(TopicPartition.of(split)).check_end(self._named, split, at)

    def details(self, wanted: SplitRange, planned: KafkaDetails) -> KafkaDetails:
        """Return the details of a range, with its archived parts.

        Raises DataLossError if a part is neither in the archive nor in Kafka.
        """
        partition = TopicPartition.of(wanted.split_id)
        seam = self.seam(partition)
        if wanted.start >= seam:
            return planned
        age_s = time.monotonic() - self._listed_s[partition]
        holes = self._directory(partition).holes(wanted.start, min(wanted.end, seam))
        is_old = age_s > _LISTED_FOR_S or (wanted.end > seam and age_s > _NEW_FOR_S)
        if holes or (is_old and self.version is None):  # the version of a batch stays
            self._list([partition])  # more may have been archived meanwhile, and objects merged
            seam = self.seam(partition)
        directory, end = self._directory(partition), min(wanted.end, seam)
        for first, stop in directory.holes(wanted.start, end):
            self._lose(wanted.split_id, first, stop)
        parts = tuple(directory.within(wanted.start, end))
        self._count(wanted.split_id, parts)
        self._reads = True
        return planned._replace(archived=parts, kafka_from=seam)

    def _count(self, split_id: SplitId, parts: Collection[ArchivedPart]) -> None:
        up_to, count = self._read.get(split_id, (0, 0))
        for part in parts:
            count += max(0, part.end - max(part.start, up_to))  # Spark may plan the tasks of a batch twice
            up_to = max(up_to, part.end)
        self._read[split_id] = up_to, count

    def _lose(self, split_id: SplitId, first: int, stop: int) -> None:
        sentence = (
            f"offsets {first} to {stop - 1} of {split_id} are lost: they are not in the archive "
            f"{self._archive.location}, and Kafka begins at "
            f"{self._begins.get(TopicPartition.of(split_id), stop)}"
        )
        if self._fail_on_data_loss:
            raise DataLossError(f"{sentence} (failOnDataLoss)")
        if (split_id, first, stop) not in self._missing:
            self._missing.add((split_id, first, stop))
            _LOG.warning("%s; they are skipped", sentence)

    def metrics(self) -> dict[str, int]:
        """Return how many offsets this run has read from the archive, and skipped because they are in neither place."""
        return {
            "archiveMissingOffsets": sum(stop - first for _, first, stop in self._missing),
            "archiveReadOffsets": sum(count for _, count in self._read.values()),
        }

    def split_by_seam(self, ranges: Mapping[SplitId, SplitRange]) -> tuple[int, dict[SplitId, SplitRange]]:
        """Return about how many bytes of objects some ranges have, and what of them is in Kafka."""
        size, in_kafka = 0, {}
        for split, whole in ranges.items():
            partition = TopicPartition.of(split)
            seam = self.seam(partition) if partition in self._begins else 0
            start = min(max(whole.start, seam), whole.end)
            size += self._directory(partition).bytes_within(whole.start, start)
            in_kafka[split] = replace(whole, start=start)
        return size, in_kafka

    def peek(self, positions: Positions, horizon: Horizon) -> tuple[dict[SplitId, Head], dict[SplitId, int]]:
        """Return the archived heads at or after positions, and for the other splits where Kafka goes on."""
        ends = {split: self.seam(TopicPartition.of(split)) for split in positions}
        return self._heads(positions, ends, lambda rows: self._find_head.first_of(rows, horizon))

    def held(self, ranges: Collection[SplitRange], horizon: Horizon) -> tuple[dict[SplitId, Head], dict[SplitId, int]]:
        """Return the archived heads of ranges at or past the horizon, and for the other splits where Kafka goes on."""
        ends = {r.split_id: min(r.end, self.seam(TopicPartition.of(r.split_id))) for r in ranges}
        starts = {r.split_id: r.start for r in ranges}
        return self._heads(starts, ends, lambda rows: self._find_head.first_held_of(rows, horizon))

    def _heads(
        self, positions: Positions, ends: Positions, find: Find
    ) -> tuple[dict[SplitId, Head], dict[SplitId, int]]:
        heads: dict[SplitId, Head] = {}
        left: dict[SplitId, int] = {}
        for split, at in positions.items():
            partition, end = TopicPartition.of(split), ends[split]
            head = self._retried(partial(self._first, find, at, end), partition)
            if head is None:  # a look that found an object gone has listed anew, and the seam may be earlier
                left[split] = max(at, min(end, self.seam(partition)))
            else:
                heads[split] = head
        return heads, left

    def _first(self, find: Find, start: int, end: int, directory: Directory) -> Head | None:
        return find(self._records.from_offset(directory, start, end))

    def first_at(self, partition: TopicPartition, time_ms: int, start: int = 0) -> Head | None:
        """Return the first record at or after a time that is read from the archive, from an offset on."""
        end = self.seam(partition)
        return self._retried(lambda directory: self._records.first_at(directory, time_ms, start, end), partition)

    def _retried(self, look: Callable[[Directory], Head | None], partition: TopicPartition) -> Head | None:
        try:
            return look(self._directory(partition))
        except ObjectGoneError:  # such as by a lifecycle rule
            self._list([partition])
            return look(self._directory(partition))

    def lookup(self, times_ms: Mapping[SplitId, int], positions: Positions) -> dict[SplitId, Head]:
        """Return the first archived record at or after a time, from a position on, of each split that has one."""
        heads = {s: self.first_at(TopicPartition.of(s), max(at_ms, 0), positions[s]) for s, at_ms in times_ms.items()}
        return {split: head for split, head in heads.items() if head is not None}

    def latest(self, ends: Positions, horizon: Horizon, in_kafka: Mapping[SplitId, int]) -> dict[SplitId, int]:
        """Return the greatest usable timestamps before some ends, by what files say and by what Kafka has said.

        A split is left to peeks if it has records in Kafka, which has said nothing of it, and if files do not say it.
        """
        latest, accepts = dict(in_kafka), self._find_head.event_times.policy.accepts
        for split, end in ends.items():
            partition = TopicPartition.of(split)
            if split in latest or self.seam(partition) >= end:
                above = latest.pop(split, -1)
                at_ms = self._directory(partition).latest_ms(end, above, lambda time_ms: accepts(time_ms, horizon))
                latest.update({} if at_ms is None or at_ms < 0 else {split: at_ms})
        return latest
