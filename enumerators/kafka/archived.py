"""The Kafka enumerator of topics with an archive: a second place where offsets are kept.

Below the *seam* of a partition, records come from the archive, and from it on from Kafka.  Positions are offsets on
both sides.  So only this module, and the reader, know about the archive.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from tidegate.alignment.budget import Cost
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.splits import Extent, Head, Positions, SplitId, SplitRange
from tidegate.enumerators.archive.directory import Directory
from tidegate.enumerators.archive.listing import directories_of
from tidegate.enumerators.archive.records import ArchivedRecords
from tidegate.enumerators.contract import Divergence
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator, KafkaTimestampEnumerator
from tidegate.enumerators.kafka.topics import LogCut, topic_id_text
from tidegate.errors import DataLossError, ObjectGoneError, OptionError, counted
from tidegate.readers.archive.layout import ArchiveLayout
from tidegate.readers.archive.objects import ArchivedPart
from tidegate.readers.kafka.client import EARLIEST
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.reader import KafkaDetails
from tidegate.readers.kafka.schema import arrow_schema

_LOG = logging.getLogger("tidegate.planner")
_LISTED_FOR_S = 3600.0  # merged objects are kept for longer
_NEW_FOR_S = 60.0  # behind the listed objects, Kafka may be read without another look
_FOR_TIMESTAMPS = ("topic", "partition", "offset", "timestamp")
_NOTHING = Directory()
_Answer = TypeVar("_Answer")


class _Archived(KafkaEnumerator):
    """Finds archived records first, and Kafka's behind them.

    A partition is listed when it is discovered.  It is listed again when Kafka has deleted records that the listing
    lacks, when the listing is read to its end, when it is an hour old, and when an object of it is gone.
    """

    def __init__(self, layout: ArchiveLayout, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._layout, self._place = layout, layout.place
        self._named = f"archive is {layout.place.location!r}"
        times = self._find_head.event_times
        schema = arrow_schema(include_headers=times.needs_headers)
        if times.by_record_timestamp:
            schema = pa.schema([schema.field(name) for name in _FOR_TIMESTAMPS])
        self._records = ArchivedRecords(layout, schema)
        self._directories: dict[TopicPartition, Directory] = {}
        self._listed_s: dict[TopicPartition, float] = {}
        self._epochs: dict[SplitId, int | None] = {}  # under which the log is known to hold what is archived
        self._begins: dict[TopicPartition, int] = {}
        self._missing: set[tuple[SplitId, int, int]] = set()
        self._told: set[TopicPartition] = set()
        self._read: dict[SplitId, tuple[int, int]] = {}  # up to which offset, and how many
        self._older = self  # for starts and ends

    def discover(self) -> Collection[SplitId]:
        """Also list the archive of new partitions.

        Raises OptionError if it holds records of another topic of the same name.
        """
        splits = super().discover()
        new = [partition for partition in self._found if partition not in self._directories]
        self._list(new)
        for partition in new if self._fail_on_data_loss else ():
            self._directories[partition].check_topic(self._named, partition.split_id, self._topic_id(partition))
        return splits

    def _list(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            listed = directories_of(self._layout, partitions)
            self._directories.update({partition: listed[partition] for partition in partitions})
            self._epochs.update({partition.split_id: listed[partition].leader_epoch for partition in partitions})
        self._listed_s.update(dict.fromkeys(partitions, time.monotonic()))

    def _directory(self, partition: TopicPartition) -> Directory:
        """Return what is archived of the present topic: another one of its name has other records."""
        directory = self._directories.get(partition, _NOTHING)
        return directory if directory.is_of(self._topic_id(partition)) else _NOTHING

    def _topic_id(self, partition: TopicPartition) -> str:
        return topic_id_text(self._client.topic_ids.get(partition.topic))

    def _seam(self, partition: TopicPartition) -> int:
        """Return the offset from which on a partition is read from Kafka."""
        if self.earliest(partition) is None:
            return 0
        begin = self._logs.begins.get(partition, self._begins.get(partition))
        if begin is None:  # a batch that an earlier run planned
            begin = self._begins[partition] = self._client.list_offsets({partition: EARLIEST})[partition][0]
        return self._directory(partition).seam(begin)

    def earliest(self, partition: TopicPartition) -> int | None:
        """Return the first archived offset."""
        return self._directory(partition).first

    def first_at(self, partition: TopicPartition, time_ms: int, start: int = 0) -> Head | None:
        """Return the first record at or after a time that is read from the archive, from an offset on."""
        return self._looked(self._records.first_at, partition, time_ms, start, self._seam(partition))

    def _reachable_extents(self, splits: Collection[SplitId]) -> tuple[Mapping[SplitId, Extent], dict[SplitId, str]]:
        extents, away = super()._reachable_extents(splits)
        self._check_ends()
        moved = {p: begin for p, begin in self._logs.begins.items() if self._begins.get(p) != begin}
        self._begins.update(moved)
        self._list([p for p, begin in moved.items() if self._lacks(p, begin)])
        self._check_found(moved)
        return {s: replace(extent, begin=self._begin(TopicPartition.of(s))) for s, extent in extents.items()}, away

    def _check_found(self, moved: Mapping[TopicPartition, int]) -> None:
        """Tell once of partitions without an archive.  moved: what Kafka has newly deleted.

        Raises OptionError if there is no archive at all, but Kafka has deleted records.
        """
        without = {p: begin for p, begin in moved.items() if not self._directory(p).parts}
        deleted = {p: begin for p, begin in without.items() if begin and p not in self._told}
        is_empty = not any(directory.parts for directory in self._directories.values())
        if told := deleted or (without if is_empty else {}):
            first, others = min(told), len(told) - 1
            named = f"{first.split_id} and {counted(others, 'other partition')}" if others else first.split_id
            what = f", but Kafka has deleted those before {deleted[first]}" if deleted else "; all come from Kafka"
            sentence = f"{self._named}, which holds no records of {named}{what}"
            if deleted and is_empty:
                raise OptionError(sentence)
            self._told.update(deleted)
            _LOG.warning("%s", sentence)

    def _check_ends(self) -> None:
        ends = self.ends_under(self._epochs)
        kept = {split: min(high, ends.get(split, high)) for split, high in self._logs.high.items()}
        shorter = {split: at for split, at in kept.items() if self._directory(TopicPartition.of(split)).end > at}
        self._ask_for_topics_of(shorter)  # nothing is archived of a topic that was recreated
        for split, at in shorter.items():
            self._check_kept(split, at)
        self._epochs.update({split: self._logs.leader_epochs[TopicPartition.of(split)] for split in ends})

    def _check_kept(self, split: SplitId, kept: int) -> None:
        self._directory(TopicPartition.of(split)).check_end(self._named, split, kept)

    def validate(self, positions: Positions) -> Mapping[SplitId, Divergence]:
        """Also compare where logs were cut with the archive.

        Raises DataLossError if it reaches further: its records are not those that Kafka has now.
        """
        diverged = super().validate(positions)
        for split, divergence in diverged.items():
            if isinstance(divergence, LogCut):
                self._check_kept(split, divergence.position)
        return diverged

    def _lacks(self, partition: TopicPartition, begin: int) -> bool:
        directory = self._directory(partition)
        return bool(directory.holes(directory.first or 0, begin))

    def _begin(self, partition: TopicPartition) -> int:
        begin, first = super()._begin(partition), self.earliest(partition)
        return begin if first is None else min(first, begin)

    def details(self, wanted: SplitRange) -> KafkaDetails:
        """Also name the archived parts of the range.

        Raises DataLossError if a part is neither in the archive nor in Kafka.
        """
        planned = super().details(wanted)
        partition = TopicPartition.of(wanted.split_id)
        seam = self._seam(partition)
        if wanted.start >= seam:
            return planned
        age_s = time.monotonic() - self._listed_s[partition]
        holes = self._directory(partition).holes(wanted.start, min(wanted.end, seam))
        is_read = wanted.end > seam and age_s > _NEW_FOR_S
        if holes or is_read or age_s > _LISTED_FOR_S:
            self._list([partition])  # more may have been archived meanwhile, and objects merged
            seam = self._seam(partition)
        directory, end = self._directory(partition), min(wanted.end, seam)
        for first, stop in directory.holes(wanted.start, end):
            self._lose(wanted.split_id, first, stop)
        parts = tuple(directory.within(wanted.start, end))
        self._count(wanted.split_id, parts)
        return planned._replace(archived=parts, kafka_from=seam)

    def _count(self, split_id: SplitId, parts: Collection[ArchivedPart]) -> None:
        up_to, count = self._read.get(split_id, (0, 0))
        for part in parts:
            count += max(0, part.end - max(part.start, up_to))  # Spark may plan the tasks of a batch twice
            up_to = max(up_to, part.end)
        self._read[split_id] = up_to, count

    def _lose(self, split_id: SplitId, first: int, stop: int) -> None:
        sentence = (
            f"offsets {first} to {stop - 1} of {split_id} are lost: they are not in the archive {self._place.location}"
            f", and Kafka begins at {self._begins.get(TopicPartition.of(split_id), stop)}"
        )
        if self._fail_on_data_loss:
            raise DataLossError(f"{sentence} (failOnDataLoss)")
        if (split_id, first, stop) not in self._missing:
            self._missing.add((split_id, first, stop))
            _LOG.warning("%s; they are skipped", sentence)

    def metrics(self) -> Mapping[str, int]:
        """Return how many offsets this run has read from the archive, and skipped because they are in neither place."""
        return {
            "archiveMissingOffsets": sum(stop - first for _, first, stop in self._missing),
            "archiveReadOffsets": sum(count for _, count in self._read.values()),
        }

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return offsets as rows, and bytes by the sizes of archived objects."""
        in_kafka, size = {}, 0
        for split, whole in ranges.items():
            partition = TopicPartition.of(split)
            seam = self._seam(partition) if partition in self._begins else 0
            start = min(max(whole.start, seam), whole.end)
            size += self._directory(partition).bytes_within(whole.start, start)
            in_kafka[split] = replace(whole, start=start)
        return Cost(sum(r.end - r.start for r in ranges.values()), size + super().cost(in_kafka).bytes)

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Look at the first record that counts, in the archive and then in Kafka."""
        find = partial(self._find_head.first_of, horizon=horizon)
        ends = {split: self._seam(TopicPartition.of(split)) for split in positions}
        heads = self._in_archive(positions, ends, find)
        left = {split: max(at, self._read_up_to(split, ends)) for split, at in positions.items() if split not in heads}
        return {**heads, **super().peek(left, horizon)}

    def held(self, ranges: Collection[SplitRange], horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Look through ranges, first in the archive."""
        find = partial(self._find_head.first_held_of, horizon=horizon)
        ends = {r.split_id: min(r.end, self._seam(TopicPartition.of(r.split_id))) for r in ranges}
        heads: dict[SplitId, Head | None] = {r.split_id: None for r in ranges}
        heads.update(self._in_archive({r.split_id: r.start for r in ranges}, ends, find))
        left = [
            replace(r, start=max(r.start, self._read_up_to(r.split_id, ends)))
            for r in ranges
            if heads[r.split_id] is None
        ]
        return {**heads, **super().held([r for r in left if r.start < r.end], horizon)}

    def _read_up_to(self, split: SplitId, ends: Positions) -> int:
        """Return where Kafka goes on: a look that found an object gone has listed anew, and the seam is earlier."""
        return min(ends[split], self._seam(TopicPartition.of(split)))

    def _in_archive(
        self, positions: Positions, ends: Positions, find: Callable[..., Head | None]
    ) -> dict[SplitId, Head]:
        def look(directory: Directory, at: int, end: int) -> Head | None:
            return find(self._records.from_offset(directory, at, end))

        return {
            split: head
            for split, at in positions.items()
            if at < ends[split] and (head := self._looked(look, TopicPartition.of(split), at, ends[split])) is not None
        }

    def _looked(self, look: Callable[..., _Answer], partition: TopicPartition, *where: int) -> _Answer:
        try:
            return look(self._directory(partition), *where)
        except ObjectGoneError:  # such as by a lifecycle rule
            self._list([partition])
            return look(self._directory(partition), *where)


class _ArchivedByTimestamp(_Archived, KafkaTimestampEnumerator):
    """Knows the positions of timestamps: those of objects and of their row groups, and Kafka's own index."""

    def lookup_each(self, times_ms: Mapping[SplitId, int], positions: Positions) -> Mapping[SplitId, Head | None]:
        """Find the first entry at or after a time, in the archive from the positions on, and then in Kafka."""
        found = {
            split: self.first_at(TopicPartition.of(split), max(at_ms, 0), positions[split])
            for split, at_ms in times_ms.items()
        }
        left = {split: at_ms for split, at_ms in times_ms.items() if found[split] is None}
        return {**found, **(super().lookup_each(left, positions) if left else {})}

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Compare Kafka's greatest timestamp with those that the names of archived objects tell."""
        latest, accepts = dict(super().latest(ends, horizon)), self._find_head.event_times.policy.accepts
        for split, end in ends.items():
            partition = TopicPartition.of(split)
            if split in latest or self._seam(partition) >= end:  # otherwise, peeks look in Kafka first
                known_ms = latest.get(split)
                later = self._directory(partition).with_times_from(-1 if known_ms is None else known_ms + 1, 0)
                times = [p.obj.max_ms for p in later if p.end <= end and accepts(p.obj.max_ms, horizon)]
                if times:
                    latest[split] = max(times)
        return latest


def archived_enumerator(layout: ArchiveLayout, *, by_timestamp: bool) -> Callable[..., KafkaEnumerator]:
    """Return the constructor of an enumerator, which takes the parameters of ``KafkaEnumerator``.

    by_timestamp: whether event times are the timestamps of records, which both places index.
    """
    return partial(_ArchivedByTimestamp if by_timestamp else _Archived, layout)
