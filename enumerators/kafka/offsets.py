"""Offsets of Kafka partitions: those that options name, and the form of Spark's built-in source.

Dashboards and alerts know this form: ``{"orders": {"0": 23, "1": 7}}``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from tidegate.alignment.cuts import Cutter, Span
from tidegate.alignment.index import Peeking, TimeIndex
from tidegate.alignment.splits import Extent, Extents, Head, Horizon, Positions, SplitId
from tidegate.enumerators.clocks import Clocks
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
    without_record: the point for a time past the last record: ``latest``, or an error.
    wait_s: how long after such a time more records are waited for, if it is an end; None: not at all.
    group_id: the consumer group whose committed offsets come before these points.
    """

    option: str
    default: OffsetPoint | None = EARLIEST
    by_partition: Mapping[TopicPartition, OffsetPoint] = field(default_factory=dict)
    without_record: Literal["error", "latest"] = "latest"
    wait_s: float | None = None
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


class _Searched(NamedTuple):
    """A log without a record at or after its time.  grown_s: when this run has seen it grow last; 0: it has not."""

    end: int
    grown_s: float


class EndsByTime:
    """The ends at the first records at or after a time.

    They stay, because retention and compaction may delete these records: a later one is not the end then.  A log that
    has no such record yet is searched again only where it has grown.
    """

    def __init__(self, stored: Mapping[SplitId, tuple[int, int]], clocks: Clocks) -> None:
        self._ends, self._clocks, self._looked_s = stored, clocks, clocks.wall()
        self._searched: dict[TopicPartition, _Searched] = {}
        self._moved: set[SplitId] = set()

    def look(self) -> None:
        """Learn that logs are asked for their ends now: what was appended to them later is not known."""
        self._looked_s = self._clocks.wall()

    def unsearched(self, logs: Mapping[TopicPartition, Extent]) -> dict[TopicPartition, int]:
        """Return from where on logs may hold a record at or after their times; those that may not are left out."""
        ends = {p: self._searched[p].end for p in logs if p in self._searched}
        return {p: end if (end := ends.get(p, 0)) < log.end else 0 for p, log in logs.items() if ends.get(p) != log.end}

    def note_searched(self, logs: Mapping[TopicPartition, Extent]) -> None:
        """Learn that logs have no record at or after their times."""
        now_s = self._clocks.wall()
        self._searched.update({p: _Searched(log.end, now_s if p in self._searched else 0) for p, log in logs.items()})

    def waits_for(self, partition: TopicPartition, log: Extent, at_ms: int, wait_s: float | None) -> bool:
        """Return whether records before a time may follow a log that was searched.

        They may while a transaction is open, and until ``wait_s`` after that time and after the log has grown.
        """
        since_s = max(at_ms / 1000, self._searched[partition].grown_s)
        return wait_s is not None and (not log.settled or self._looked_s < since_s + wait_s)

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
        """Forget what was found in partitions that may hold other records now."""
        gone = {p.split_id for p in partitions if p.split_id in self._ends or p in self._searched}
        if gone:
            self._moved |= gone
            self._ends = {split: end for split, end in self._ends.items() if split not in gone}
            self._searched = {p: searched for p, searched in self._searched.items() if p.split_id not in gone}

    def cut(self, epoch_ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Forget what was found in logs that no longer have all of it, by the answers to ``KafkaClient.epoch_ends``.

        An end may still be at the first record of a new leader, and then it is where the log of the last one ends.
        """
        ends = {p: end for p, (_, end) in epoch_ends.items() if end >= 0}
        at_records = [p for p in self.known_of(ends) if ends[p] <= self._ends[p.split_id][1]]
        at_ends = [p for p, end in ends.items() if p in self._searched and end < self._searched[p].end]
        self.forget([*at_records, *at_ends])

    def take_moved(self) -> set[SplitId]:
        """Return the partitions that were forgotten since the last call."""
        moved, self._moved = self._moved, set()
        return moved

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

    A partition without a record at or after its end is left out while more records are waited for.

    Raises OptionError if the option leaves out a partition, for an offset past the end, and for a time past the last
    record if the option refuses such times.
    """
    points = _points(spec, partitions, client)
    times = {p: point.timestamp_ms for p, point in points.items() if isinstance(point, ByTimestamp)}
    resolved = _at_times(spec, times, client, older, ends, logs)
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
    seen: Extents,
) -> dict[TopicPartition, int]:
    resolved = {} if ends is None else ends.of(times_ms)
    logs = _logs([p for p in times_ms if p not in resolved], client, seen)
    unsearched = dict.fromkeys(logs, 0) if ends is None else ends.unsearched(logs)
    if older is not None:
        heads = {p: older.first_at(p, times_ms[p], start) for p, start in unsearched.items()}
        resolved |= {p: head.position for p, head in heads.items() if head is not None}
    parts = {p: replace(logs[p], begin=max(logs[p].begin, at)) for p, at in unsearched.items() if p not in resolved}
    resolved |= _first_records(times_ms, parts, client)
    if ends is not None:
        ends.note(times_ms, resolved)
        ends.note_searched({p: logs[p] for p in parts if p not in resolved})
    for partition, log in logs.items():
        if partition in resolved or (ends and ends.waits_for(partition, log, times_ms[partition], spec.wait_s)):
            continue
        if spec.without_record == "error":
            raise OptionError(
                f"{spec.option} is {times_ms[partition]}, but partition {partition.split_id} has no record so late; "
                "set startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        resolved[partition] = log.end
    return resolved


def _logs(partitions: Collection[TopicPartition], client: KafkaClient, seen: Extents) -> dict[TopicPartition, Extent]:
    asked = [p for p in partitions if p.split_id not in seen]
    begins, ends = (client.list_offsets(dict.fromkeys(asked, point)) for point in (EARLIEST, LATEST))
    return {p: seen[p.split_id] if p not in begins else Extent(begins[p][0], ends[p][0]) for p in partitions}


def look_up(client: KafkaClient, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Head | None]:
    """Return Kafka's candidates for the first record at or after a time; it may be a transaction marker, or later."""
    # To Kafka, negative times name the log's ends, and times beyond a Long are errors.
    times = {partition: min(max(at_ms, 0), _LAST_MS) for partition, at_ms in times_ms.items()}
    return {p: None if offset < 0 else Head(offset, at_ms) for p, (offset, at_ms) in client.list_offsets(times).items()}


def _first_records(
    times_ms: Mapping[TopicPartition, int], parts: Mapping[TopicPartition, Extent], client: KafkaClient
) -> dict[TopicPartition, int]:
    """Return the offset of the first record at or after a time in a part of each log, if there is one.

    Kafka also answers with transaction markers, which carry the wall clock: a whole transactional history then seems to
    be before any time.  Other brokers answer with a later record, or with none, so logs are cut as those of a batch
    are, which is exact if their records are in order.
    """
    parts = {p: part for p, part in parts.items() if part.begin < part.end}
    index = TimeIndex(_Logs(client, {p.split_id: part.begin for p, part in parts.items()}))
    found: dict[TopicPartition, int] = {}
    for at_ms in sorted({times_ms[p] for p in parts}):
        spans = {
            p.split_id: Span(Head(part.begin - 1, _BEFORE_ALL_MS), part.begin - 1, part.end)
            for p, part in parts.items()
            if times_ms[p] == at_ms
        }
        cuts = Cutter(index, spans).cut(at_ms)
        found.update({TopicPartition.of(s): cut.position for s, cut in cuts.items() if cut.next_ms is not None})
    return found


class _Logs(Peeking):
    """The records of logs from some offsets on by their timestamps, and before each a record older than all times.

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
