"""Offsets of Kafka partitions: those that options name, and the form of Spark's built-in source.

Dashboards and alerts know this form: ``{"orders": {"0": 23, "1": 7}}``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from tidegate.alignment.cuts import Cutter, Span
from tidegate.alignment.index import Peeking, TimeIndex
from tidegate.alignment.splits import Extents, Head, Horizon, Positions, SplitId
from tidegate.enumerators.contract import Json
from tidegate.enumerators.planning.offset import BuiltInOffset
from tidegate.errors import OptionError
from tidegate.readers.kafka.client import EARLIEST, LATEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.group import ConsumerGroup
from tidegate.readers.kafka.peek import PeekCache, peek

if TYPE_CHECKING:
    from tidegate.enumerators.kafka.history import TopicHistory

_LAST_MS = 2**63 - 1
_BEFORE_ALL_MS = -2  # a record without a timestamp has -1


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """The first record at or after a time in milliseconds since the epoch; -2 and -1 are EARLIEST and LATEST."""

    timestamp_ms: int


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

    default: the point for all partitions if ``by_partition`` is empty; None: only offsets that a group has committed.
    by_partition: a point for every partition, as in Spark's JSON options.
    without_record: the point for a time past the last record: ``latest``, an error, or none while it is still to come.
    group_id: the consumer group whose committed offsets come before these points.
    """

    option: str
    default: OffsetPoint | None = EARLIEST
    by_partition: Mapping[TopicPartition, OffsetPoint] = field(default_factory=dict)
    without_record: Literal["error", "latest", "none"] = "latest"
    group_id: str | None = None

    def names(self, point: OffsetPoint) -> bool:
        """Return whether ``point`` is the point of any partition."""
        return point in (self.by_partition.values() or (self.default,))

    def check_known(self, partitions: Collection[TopicPartition]) -> None:
        """Raise OptionError if the option names a partition that is not among those that are read."""
        if unknown := self.by_partition.keys() - set(partitions):
            raise OptionError(
                f"{self.option} names partition {min(unknown).split_id}, which is not among those that are read: "
                f"{', '.join(sorted(p.split_id for p in partitions)[:10])}"
            )

    def point(self, partition: TopicPartition) -> OffsetPoint:
        """Return the point of a partition.  Raises OptionError when the option leaves it out."""
        if not self.by_partition:
            if self.default is None:
                raise OptionError(
                    f"startingGroupId is {self.group_id!r}, a group that has committed no offset of "
                    f"{partition.split_id}; set startingOffsets to begin there"
                )
            return self.default
        if partition not in self.by_partition:
            raise OptionError(
                f"{self.option} does not name partition {partition.split_id}, but it must name every partition"
                f"{_EXAMPLES[self.option]}"
            )
        return self.by_partition[partition]


class EndsByTime:
    """The ends at the first records at or after a time.

    They stay, because retention and compaction may delete these records: a later one is not the end then.
    """

    def __init__(self, stored: Mapping[SplitId, tuple[int, int]]) -> None:
        self._ends = stored
        self._begun_ms = int(time.time() * 1000)

    def is_to_come(self, at_ms: int) -> bool:
        """Return whether a time had not come when this run began: records before it may follow the log's end."""
        return at_ms > self._begun_ms

    def known_of(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions with a known end."""
        return [p for p in partitions if p.split_id in self._ends]

    def of(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the ends that are known for these times."""
        known = {p: self._ends[p.split_id] for p in self.known_of(times_ms)}
        return {p: end for p, (at_ms, end) in known.items() if at_ms == times_ms[p]}

    def note(self, times_ms: Mapping[TopicPartition, int], records: Mapping[TopicPartition, int]) -> None:
        """Learn of the first records at or after times."""
        self._ends = {**self._ends, **{p.split_id: (times_ms[p], record) for p, record in records.items()}}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the ends of partitions that may hold other records now."""
        if gone := {p.split_id for p in self.known_of(partitions)}:
            self._ends = {split: end for split, end in self._ends.items() if split not in gone}

    def cut(self, epoch_ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Forget the ends at records that logs no longer have, by the answers to ``KafkaClient.epoch_ends``."""
        of_logs = {p: epoch_ends[p][1] for p in self.known_of(epoch_ends)}
        self.forget([p for p, end in of_logs.items() if 0 <= end <= self._ends[p.split_id][1]])

    def snapshot(self) -> Mapping[SplitId, tuple[int, int]]:
        """Return the state that a restart needs."""
        return self._ends


def resolve(
    spec: OffsetsSpec,
    partitions: Collection[TopicPartition],
    client: KafkaClient,
    older: TopicHistory | None = None,
    ends: EndsByTime | None = None,
    logs: Extents = MappingProxyType({}),
) -> dict[TopicPartition, int]:
    """Resolve ``spec`` to an offset of each partition.

    older: the archived records, which come before those of Kafka.
    ends: the ends by time that are known, to which those that are found are added; None: ``spec`` is a start.
    logs: the logs that were seen for this plan; the others are asked for.

    With ``none``, a partition without a record so late is left out until the time has come.

    Raises OptionError if the option leaves out a partition, for an offset past the end, and for a time past the last
    record if the option refuses such times.
    """
    points = _points(spec, partitions, client)
    times = {p: point.timestamp_ms for p, point in points.items() if isinstance(point, ByTimestamp)}
    resolved = _at_times(spec, times, client, older, ends)
    others = {p: point for p, point in points.items() if not isinstance(point, ByTimestamp)}
    wanted = {p: min(point, LATEST) for p, point in others.items()}
    seen = {p: logs[p.split_id].end for p, point in wanted.items() if point == LATEST and p.split_id in logs}
    listed = client.list_offsets({p: point for p, point in wanted.items() if p not in seen})
    answers = {**seen, **{p: offset for p, (offset, *_) in listed.items()}}
    for partition, point in others.items():
        answer = answers[partition]
        resolved[partition] = _existing(spec, partition, point, answer) if point >= 0 else answer
        if point == EARLIEST and older is not None and (first := older.earliest(partition)) is not None:
            resolved[partition] = min(first, answer)
    return resolved


def _at_times(
    spec: OffsetsSpec,
    times_ms: Mapping[TopicPartition, int],
    client: KafkaClient,
    older: TopicHistory | None,
    ends: EndsByTime | None,
) -> dict[TopicPartition, int]:
    resolved = {} if ends is None else ends.of(times_ms)
    if older is not None:
        heads = {p: older.first_at(p, ms) for p, ms in times_ms.items() if p not in resolved}
        resolved |= {p: head.position for p, head in heads.items() if head is not None}
    found = _first_records({p: ms for p, ms in times_ms.items() if p not in resolved}, client)
    resolved |= {p: record for p, (record, _) in found.items() if record is not None}
    if ends is not None:
        ends.note(times_ms, resolved)
    for partition, (_, log_end) in found.items():
        is_open = spec.without_record == "none" and ends is not None and ends.is_to_come(times_ms[partition])
        if partition in resolved or is_open:
            continue
        if spec.without_record == "error":
            raise OptionError(
                f"{spec.option} is {times_ms[partition]}, but partition {partition.split_id} has no record so late; "
                "set startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        resolved[partition] = log_end
    return resolved


def look_up(client: KafkaClient, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Head | None]:
    """Return Kafka's candidates for the first record at or after a time; it may be a transaction marker, or later."""
    # To Kafka, negative times name the log's ends, and times beyond a Long are errors.
    times = {partition: min(max(at_ms, 0), _LAST_MS) for partition, at_ms in times_ms.items()}
    return {p: None if offset < 0 else Head(offset, at_ms) for p, (offset, at_ms) in client.list_offsets(times).items()}


def _first_records(
    times_ms: Mapping[TopicPartition, int], client: KafkaClient
) -> dict[TopicPartition, tuple[int | None, int]]:
    """Return the offset of the first record at or after a time, and the end, for each partition.

    Kafka also answers with transaction markers, which carry the wall clock: a whole transactional history then seems to
    be before any time.  Other brokers answer with a later record, or with none, so logs are cut as those of a batch
    are, which is exact if their records are in order.
    """
    if not times_ms:
        return {}
    begins, ends = (client.list_offsets(dict.fromkeys(times_ms, point)) for point in (EARLIEST, LATEST))
    logs = {p.split_id: (p, begins[p][0], ends[p][0]) for p in times_ms if begins[p][0] < ends[p][0]}
    index = TimeIndex(_Logs(client, {split: begin for split, (_, begin, _) in logs.items()}))
    found: dict[TopicPartition, tuple[int | None, int]] = {p: (None, ends[p][0]) for p in times_ms}
    for at_ms in sorted(set(times_ms.values())):
        spans = {
            split: Span(Head(begin - 1, _BEFORE_ALL_MS), begin - 1, end)
            for split, (partition, begin, end) in logs.items()
            if times_ms[partition] == at_ms
        }
        for split, cut in Cutter(index, spans).cut(at_ms).items():
            partition, _, end = logs[split]
            found[partition] = (None if cut.next_ms is None else cut.position, end)
    return found


class _Logs(Peeking):
    """All records of some logs by their timestamps, and before each log a record that is older than all times.

    This keeps requests away from the beginning of a log, which may be in tiered storage.
    """

    def __init__(self, client: KafkaClient, begins: Positions) -> None:
        self._client, self._begins = client, begins
        self._peeks = PeekCache()

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Ask Kafka's index."""
        answers = look_up(self._client, {TopicPartition.of(split): event_time_ms for split in positions})
        return {partition.split_id: head for partition, head in answers.items()}

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Look at the first record at or after each position."""
        del horizon  # any record counts
        inside = {TopicPartition.of(split): at for split, at in positions.items() if at >= self._begins[split]}
        heads = peek(self._client, inside, cache=self._peeks) if inside else {}
        before = {split: Head(at, _BEFORE_ALL_MS) for split, at in positions.items() if at < self._begins[split]}
        return {**before, **{partition.split_id: head for partition, head in heads.items()}}


def _points(
    spec: OffsetsSpec, partitions: Collection[TopicPartition], client: KafkaClient
) -> dict[TopicPartition, OffsetPoint]:
    points: dict[TopicPartition, OffsetPoint] = {}
    if spec.group_id is not None:
        with closing(ConsumerGroup(client.config, spec.group_id)) as group:
            points.update(group.committed(partitions))
    for partition in sorted(set(partitions) - points.keys()):
        point = spec.point(partition)
        if isinstance(point, ByTimestamp) and point.timestamp_ms < 0:
            point = point.timestamp_ms
        points[partition] = point
    return points


def _existing(spec: OffsetsSpec, partition: TopicPartition, offset: int, end: int) -> int:
    if offset > end:
        raise OptionError(f"{spec.option} is {offset} for partition {partition.split_id}, which ends at {end}")
    return offset


_MOST_PARTITIONS = 500  # Spark keeps each progress a hundred times


def positions_in(offset: BuiltInOffset) -> Positions:
    """Return the positions that an offset of the built-in source holds."""
    return {
        TopicPartition(topic, p).split_id: at
        for topic, by_partition in offset.items()
        for p, at in by_partition.items()
    }


def offset_by_topic(positions: Positions) -> BuiltInOffset:
    """Return the offset of the built-in source that holds positions, in its order."""
    offset: dict[str, dict[int, int]] = {}
    for partition, at in sorted((TopicPartition.of(split), at) for split, at in positions.items()):
        offset.setdefault(partition.topic, {})[partition.partition] = at
    return offset


def progress_by_topic(positions: Positions, ends: Positions) -> Json:
    """Return what the built-in source tells as ``latestOffset`` and ``metrics``.

    ends: the ends up to which the run can read now.

    The ends are left out if there are more than 500.
    """
    if not ends:
        return {}
    behind = [end - positions.get(split, end) for split, end in ends.items()]
    metrics: Mapping[str, float] = {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }
    latest = offset_by_topic(ends) if len(ends) <= _MOST_PARTITIONS else {}
    return {**{topic: {str(p): end for p, end in at.items()} for topic, at in latest.items()}, "metrics": metrics}
