"""Resolves the options for the starts and stops of Kafka partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from tidegate.alignment.bisection import Bisection
from tidegate.alignment.splits import Head
from tidegate.errors import OptionError
from tidegate.readers.kafka.client import EARLIEST, LATEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.group import ConsumerGroup
from tidegate.readers.kafka.peek import peek


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """The first record at or after a time in milliseconds since the epoch; -2 and -1 are EARLIEST and LATEST."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class CommittedBy:
    """The committed offset of a consumer group, or the point of a partition without one."""

    group_id: str
    without_commit: Literal["error", "earliest", "latest"] = "error"


OffsetPoint: TypeAlias = int | ByTimestamp
"""An offset; EARLIEST or LATEST, as Kafka numbers them (-2, -1); or a time."""


_EXAMPLES = {
    "startingOffsets": " (-2 is its beginning, -1 its end)",
    "startingOffsetsByTimestamp": " (-2 is its beginning, -1 its end)",
    "endingOffsets": ", also a new one (-1 is its end, and 0 reads nothing)",
    "endingOffsetsByTimestamp": ", also a new one (-1 is its end, and 0 reads nothing)",
}
"""What may be said of a partition in each option that has to name all of them."""


@dataclass(frozen=True, slots=True)
class OffsetsSpec:
    """A point in every partition.

    default: the point for all partitions if ``by_partition`` is empty.
    by_partition: a point for every partition, as in Spark's JSON options.
    without_record: the point for a time past the last record.
    """

    option: str
    default: OffsetPoint | CommittedBy = EARLIEST
    by_partition: Mapping[TopicPartition, OffsetPoint] = field(default_factory=dict)
    without_record: Literal["error", "latest"] = "latest"

    def names(self, point: OffsetPoint) -> bool:
        """Return whether ``point`` is the point of any partition."""
        return point in (self.by_partition.values() or (self.default,))

    def point(self, partition: TopicPartition) -> OffsetPoint | CommittedBy:
        """Return the point of a partition.  Raises OptionError when the option leaves it out."""
        if not self.by_partition:
            return self.default
        if partition not in self.by_partition:
            raise OptionError(
                f"{self.option} does not name partition {partition.split_id}, but it must name every partition"
                f"{_EXAMPLES[self.option]}"
            )
        return self.by_partition[partition]


class OlderRecords(Protocol):
    """Records that are also kept elsewhere, such as in an archive."""

    def earliest(self, partition: TopicPartition) -> int | None:
        """Return the first offset there."""

    def first_at(self, partition: TopicPartition, time_ms: int) -> Head | None:
        """Return the first record at or after a time that is read from there."""


def resolve(
    spec: OffsetsSpec,
    partitions: Collection[TopicPartition],
    client: KafkaClient,
    known: Collection[TopicPartition] | None = None,
    older: OlderRecords | None = None,
) -> dict[TopicPartition, int]:
    """Resolve ``spec`` to an offset of each partition.

    known: all partitions that are read, if ``partitions`` is only a part of them.
    older: records that come before those of Kafka.

    Raises OptionError if the option names a partition that does not exist, or an offset past the end.  Also raises it
    for a time past the last record, if the option refuses such times.
    """
    known = partitions if known is None else known
    unknown = spec.by_partition.keys() - set(known)
    if unknown:
        raise OptionError(
            f"{spec.option} names partition {min(unknown).split_id}, which is not among those that are read: "
            f"{', '.join(sorted(p.split_id for p in known)[:10])}"
        )
    points = _points(spec, partitions, client)
    times = {p: point.timestamp_ms for p, point in points.items() if isinstance(point, ByTimestamp)}
    archived = {} if older is None else {p: head for p, ms in times.items() if (head := older.first_at(p, ms))}
    at_time = _first_records({p: ms for p, ms in times.items() if p not in archived}, client)
    answers = client.list_offsets({p: min(at, LATEST) for p, at in points.items() if not isinstance(at, ByTimestamp)})
    resolved: dict[TopicPartition, int] = {}
    for partition, point in points.items():
        if not isinstance(point, ByTimestamp):
            answer = answers[partition][0]
            resolved[partition] = _existing(spec, partition, point, answer) if point >= 0 else answer
            if point == EARLIEST and older is not None and (first := older.earliest(partition)) is not None:
                resolved[partition] = min(first, answer)
            continue
        if partition in archived:
            resolved[partition] = archived[partition].position
            continue
        record, end = at_time[partition]
        if record is None and spec.without_record == "error":
            raise OptionError(
                f"{spec.option} is {point.timestamp_ms}, but partition {partition.split_id} has no record so late; "
                "set startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        resolved[partition] = end if record is None else record
    return resolved


def _first_records(
    times_ms: Mapping[TopicPartition, int], client: KafkaClient
) -> dict[TopicPartition, tuple[int | None, int]]:
    """Return the offset of the first record at or after a time, and the end, for each partition.

    Kafka also answers with transaction markers, which carry the wall clock: a whole transactional history then seems to
    be before any time.  If the answer is not a record, the rest of the log is bisected, which is exact if its records
    are in order.
    """
    if not times_ms:
        return {}
    ends = {p: offset for p, (offset, _) in client.list_offsets(dict.fromkeys(times_ms, LATEST)).items()}
    answers = {p: answer for p, answer in client.list_offsets(times_ms).items() if 0 <= answer[0] < ends[p]}
    records = peek(client, {p: offset for p, (offset, _) in answers.items()}) if answers else {}
    offsets: dict[TopicPartition, int | None] = dict.fromkeys(times_ms)
    searches: dict[TopicPartition, Bisection] = {}
    for partition, record in records.items():
        if record is not None and record.event_time_ms >= times_ms[partition]:
            offsets[partition] = record.position
        elif record is not None:
            searches[partition] = Bisection(record, ends[partition], times_ms[partition], exact=True)
    while asked := {p: position for p, search in searches.items() if (position := search.question()) is not None}:
        for partition, seen in peek(client, asked).items():
            searches[partition].answer(asked[partition], seen)
    for partition, search in searches.items():
        position, next_ms = search.result()
        offsets[partition] = None if next_ms is None else position
    return {p: (record, ends[p]) for p, record in offsets.items()}


def _points(
    spec: OffsetsSpec, partitions: Collection[TopicPartition], client: KafkaClient
) -> dict[TopicPartition, OffsetPoint]:
    points: dict[TopicPartition, OffsetPoint] = {}
    for partition in partitions:
        point = spec.point(partition)
        if isinstance(point, CommittedBy):  # it is the point of all partitions
            return _committed(spec.option, point, partitions, client)
        if isinstance(point, ByTimestamp) and point.timestamp_ms < 0:
            point = point.timestamp_ms
        points[partition] = point
    return points


def _committed(
    option: str, by: CommittedBy, partitions: Collection[TopicPartition], client: KafkaClient
) -> dict[TopicPartition, OffsetPoint]:
    with closing(ConsumerGroup(client.config, by.group_id)) as group:
        commits = group.committed(partitions)
    missing = sorted(p.split_id for p in partitions if p not in commits)
    if missing and by.without_commit == "error":
        raise OptionError(
            f"{option} is {by.group_id!r}, a group that has committed no offset of {missing[0]}"
            f"{f' and {len(missing) - 1} more partitions' if len(missing) > 1 else ''}; "
            "set startingGroupIdStrategy to earliest or latest to begin there"
        )
    without = EARLIEST if by.without_commit == "earliest" else LATEST
    return {partition: commits.get(partition, without) for partition in partitions}


def _existing(spec: OffsetsSpec, partition: TopicPartition, offset: int, end: int) -> int:
    if offset > end:
        raise OptionError(f"{spec.option} is {offset} for partition {partition.split_id}, which ends at {end}")
    return offset
