"""Tracks the Kafka topics and logs of a query's positions: a topic may be recreated, and a log may be cut.

A topic is identified by its id, not by its name (KIP-516).  A position is valid within the leader epoch under which it
was planned: that leader's log held all before it (KIP-320).  Kept in the enumerator's snapshot, small:

    {"orders": {"id": "3wPRAVyyQuWBJIrTXdHuzg", "epochs": [4, 4, 7]}}
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from typing_extensions import TypedDict

from tidegate.alignment.splits import Extent, SplitId
from tidegate.enumerators.clocks import REAL_CLOCKS
from tidegate.enumerators.contract import Divergence
from tidegate.enumerators.snapshots import Snapshot
from tidegate.errors import CheckpointError
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.kafka.client import EARLIEST, LATEST, KafkaClient, ListedOffset
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import peek
from tidegate.readers.kafka.watch import WatchedEnd


class TopicState(TypedDict):
    """What is known of a topic: its id, empty without one, and the leader epochs of its partitions in turn."""

    id: str
    epochs: list[int]


@dataclass(frozen=True, slots=True)
class KafkaSnapshot(Snapshot):
    """A snapshot of a Kafka enumerator.

    cluster: the id of the cluster to which the offsets belong.
    event_time_unit: the detected unit; None: none was detected, or the option ``eventTimeUnit`` names it.
    event_time: the name of the event times that have this unit.
    taken_over_ms: when Spark's built-in source planned the offset, which is taken over from its checkpoint; None: it is
        not, or the topics were compared with that time.
    archive: the version of the archive that batches read; None: no archive, or one without versions.
    ends: the ends that a time has given, with that time; see ``EndsByTime``.
    """

    cluster: str | None = None
    event_time_unit: TimeUnit | None = None
    event_time: str | None = None
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    taken_over_ms: int | None = None
    archive: int | None = None
    ends: Mapping[SplitId, tuple[int, int]] = field(default_factory=dict)

    def with_detected_unit(self, event_times: RecordTimes) -> RecordTimes:
        """Return the event times with the unit of the snapshot, if it was detected from the same ones."""
        is_theirs = event_times.unit_is_unknown and event_times.name == self.event_time
        return event_times.with_unit(self.event_time_unit) if is_theirs else event_times


Listed: TypeAlias = Mapping[TopicPartition, ListedOffset]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """One look at the logs.

    answers: the beginnings, the high watermarks and the ends, as brokers listed them.
    leader_epochs: the epoch of the last record before each end.
    watched: the ends about whose change the brokers tell.
    extents: settled if no transaction is open.
    """

    answers: tuple[Listed, Listed, Listed] | None = None
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    high: Mapping[SplitId, int] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    watched: Mapping[TopicPartition, WatchedEnd] = field(default_factory=dict)
    extents: Mapping[SplitId, Extent] = field(default_factory=dict)

    @classmethod
    def of(cls, splits: Collection[SplitId], begins: Listed, high: Listed, ends: Listed) -> LogEnds:
        """Return the look that answers about some splits give."""
        # Brokers answer in any order, and equal plans need the same one.
        named = [(split, p) for split in splits if (p := TopicPartition.of(split)) in ends]
        return cls(
            (begins, high, ends),
            {p: begins[p].offset for _, p in named},
            {split: high[p].offset for split, p in named},
            {p: ends[p].leader_epoch for _, p in named},
            {p: WatchedEnd(ends[p].offset, high[p].offset) for _, p in named},
            {
                split: Extent(
                    begins[p].offset,
                    ends[p].offset,
                    settled=ends[p].offset >= high[p].offset,
                    epoch=ends[p].leader_epoch,
                )
                for split, p in named
            },
        )


_NO_EPOCH = -1
_CLOCK_SKEW_MS = 60_000
_LAST = 2  # the last offset is often that of a marker of a transaction

EpochEnds: TypeAlias = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, tuple[int, int]]]
"""For each partition and epoch: the newest epoch up to it that the log knows, and its end, or -1."""


class LogCut(Divergence):
    """A leader was elected that did not have all records before a position."""


class KnownTopics:
    """The ids of topics, and the leader epochs of positions.

    is_settled: the last observation is stored, so no position can diverge.
    """

    def __init__(self, stored: Mapping[str, TopicState]) -> None:
        self._ids: dict[str, UUID | None] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._seen: dict[TopicPartition, int] = {}
        self._replaced: set[UUID] = set()
        self._stored: dict[str, TopicState] | None = None
        self._observed: tuple[Mapping[TopicPartition, int], Mapping[str, UUID]] | None = None
        self.is_settled = False
        for topic, state in stored.items():
            try:
                self._ids[topic] = UUID(bytes=urlsafe_b64decode(state["id"] + "==")) if state["id"] else None
            except ValueError:
                raise CheckpointError(
                    f"the checkpoint is damaged: it holds the id {state['id']!r} for topic {topic!r}; "
                    "restore it, or start with a new checkpoint"
                ) from None
            epochs = enumerate(state["epochs"])
            self._epochs.update({TopicPartition(topic, p): epoch for p, epoch in epochs if epoch != _NO_EPOCH})

    @property
    def names(self) -> Collection[str]:
        """The known topics, including those that are gone and may come back under another id."""
        return self._ids.keys()

    @property
    def ids(self) -> Mapping[str, UUID | None]:
        """The id of each topic."""
        return self._ids

    def epoch(self, partition: TopicPartition) -> int | None:
        """Return the leader epoch of a partition's position."""
        return self._epochs.get(partition)

    def observe(self, epochs: Mapping[TopicPartition, int], ids: Mapping[str, UUID]) -> None:
        """Take in the present leader epochs, and the ids and epochs of new topics and partitions."""
        if self.is_settled and self._observed == (epochs, ids):
            return
        self._observed, self.is_settled = (epochs, dict(ids)), False
        self._seen = {partition: epoch for partition, epoch in epochs.items() if epoch != _NO_EPOCH}
        with_positions = {partition.topic for partition in self._epochs}
        for topic in {partition.topic for partition in epochs}:
            topic_id = ids.get(topic)
            if topic not in self._ids or (
                topic_id is not None and (self._ids[topic] is None or topic not in with_positions)
            ):
                self._note(topic, topic_id)
        for partition in self._seen.keys() - self._epochs.keys():
            self._epochs[partition] = self._seen[partition]
            self._stored = None

    def divergences(
        self,
        positions: Mapping[TopicPartition, int],
        begins: Mapping[TopicPartition, int],
        ids: Mapping[str, UUID],
        epoch_ends: EpochEnds,
    ) -> dict[TopicPartition, Divergence]:
        """Return the positions that have lost their meaning, and store the present ids and epochs."""
        recreated = {t: ids[t] for t in {p.topic for p in positions} if self.is_another(t, ids.get(t))}
        moved = {
            p: self._epochs[p]
            for p, epoch in self._seen.items()
            if p in positions and p.topic not in recreated and self._epochs.get(p, epoch) != epoch
        }
        # If this call fails, nothing must be stored.
        ends = epoch_ends(moved) if moved else {}
        diverged: dict[TopicPartition, Divergence] = {}
        for partition, epoch in moved.items():
            cut = self._cut(partition, epoch, positions[partition], begins[partition], ends.get(partition))
            if cut is not None:
                diverged[partition] = cut
        for partition in [p for p in positions if p.topic in recreated]:
            before, now = self._ids[partition.topic], recreated[partition.topic]
            diverged[partition] = Divergence(
                f"{_anew(partition.topic)}: its id was {topic_id_text(before)}, and is {topic_id_text(now)}",
                begins.get(partition, 0),
            )
        for topic, now in recreated.items():
            self._replaced.update({before} if (before := self._ids[topic]) is not None else ())
            self.forget([p for p in self._epochs if p.topic == topic], [topic])
            self._note(topic, now)
        self._epochs.update({p: self._seen[p] for p in self._seen if p in moved or p.topic in recreated})
        self.is_settled = all(self._epochs.get(p) == epoch for p, epoch in self._seen.items())
        if recreated or moved:
            self._stored = None
        return diverged

    def forget(self, partitions: Iterable[TopicPartition], named: Collection[str]) -> None:
        """Forget partitions that are gone, and a topic with its last one, unless the user names it."""
        partitions = [*partitions]
        for partition in partitions:
            self._epochs.pop(partition, None)
        left = {partition.topic for partition in self._epochs} | set(named)
        for topic in {partition.topic for partition in partitions} - left:
            self._ids.pop(topic, None)
        self._stored, self.is_settled = None, False

    def snapshot(self) -> Mapping[str, TopicState]:
        """Return the state that a restart needs."""
        if self._stored is None:
            epochs: dict[str, dict[int, int]] = {topic: {} for topic in self._ids}
            for (topic, partition), epoch in self._epochs.items():
                epochs[topic][partition] = epoch
            self._stored = {
                topic: {"id": topic_id_text(self._ids[topic]), "epochs": _in_turn(by_partition)}
                for topic, by_partition in epochs.items()
            }
        return self._stored

    def _note(self, topic: str, topic_id: UUID | None) -> None:
        self._ids[topic] = topic_id
        self._stored = None

    def is_another(self, topic: str, now: UUID | None) -> bool:
        """Return whether the id that brokers now send belongs to another topic than the positions do."""
        before = self._ids.get(topic)
        # A broker that is behind may still send the id of the previous topic.
        return before is not None and now is not None and now != before and now not in self._replaced

    def _cut(
        self, partition: TopicPartition, epoch: int, position: int, begin: int, newest: tuple[int, int] | None
    ) -> Divergence | None:
        """Return the divergence of a position if the present log does not hold all records before it."""
        now = self._seen[partition]
        if now < epoch and self._ids[partition.topic] is None:
            return Divergence(f"{_anew(partition.topic)}: its leader epoch was {epoch}, and is {now}", begin)
        if newest is None or newest[1] < 0 or newest[1] >= position:
            return None
        return LogCut(
            f"a leader was elected that did not have all of it: leader epoch {epoch} ends at {newest[1]}",
            max(begin, newest[1]),
        )


def _anew(topic: str) -> str:
    return f"the topic {topic!r} was deleted and recreated"


def topic_id_text(topic_id: UUID | None) -> str:
    """Return the id of a topic as Kafka's tools show it; empty with old brokers, which have none."""
    return "" if topic_id is None else urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _in_turn(epochs: Mapping[int, int]) -> list[int]:
    return [epochs.get(partition, _NO_EPOCH) for partition in range(max(epochs, default=-1) + 1)]


def recreated_since(
    planned_ms: int, positions: Mapping[TopicPartition, int], client: KafkaClient
) -> dict[TopicPartition, Divergence]:
    """Return the positions of Spark's built-in source whose topic was recreated after they were planned.

    planned_ms: when the built-in source planned them.

    A checkpoint of that source has neither ids of topics nor leader epochs.  The records before a position were in the
    log at that time.  If the first of them, and one of the last two, were stamped later, they belong to another topic.
    Two records are compared, because one may have a wrong time.  It cannot be told if the topic was recreated before
    that time, or if the new records carry old times, or times that are still to come, as forecasts do.

    A position that is not in its log is left out, because that is data loss in any case.
    """
    begins, ends = (client.list_offsets(dict.fromkeys(positions, point)) for point in (EARLIEST, LATEST))
    read = {p: (begins[p][0], at) for p, at in positions.items() if begins[p][0] < at <= ends[p][0]}
    firsts = peek(client, {p: begin for p, (begin, _) in read.items()})
    lasts = peek(client, {p: max(begin, at - _LAST) for p, (begin, at) in read.items()})
    return {
        p: Divergence(f"the topic {p.topic!r} was recreated: its first records are younger than the last batch", begin)
        for p, (begin, at) in read.items()
        if all(
            seen is not None
            and seen.position < at
            and planned_ms < seen.event_time_ms - _CLOCK_SKEW_MS <= REAL_CLOCKS.wall() * 1000
            for seen in (firsts[p], lasts[p])
        )
    }
