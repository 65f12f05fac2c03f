"""The Kafka enumerator: partitions as splits, offsets as positions, ListOffsets as the time index."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping

from pydantic import TypeAdapter
from typing_extensions import NotRequired, TypedDict

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Extent, Head, Positions, SplitId, SplitRange
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.kafka_offsets import OffsetsSpec, resolve
from tidegate.enumerators.kafka_subscription import Subscription, find_partitions
from tidegate.enumerators.probing import last_before
from tidegate.enumerators.snapshots import checked
from tidegate.errors import CheckpointError
from tidegate.readers.event_time import TimeUnit
from tidegate.readers.event_time_policy import EventTimePolicy
from tidegate.readers.kafka_client import EARLIEST, LATEST, MAX_TIMESTAMP, KafkaClient
from tidegate.readers.kafka_config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka_heads import HeadFinder
from tidegate.readers.kafka_peeked import PeekedBatches

__all__ = ["KafkaEnumerator", "KafkaTimestampEnumerator", "with_detected_unit"]

_LOG = logging.getLogger("tidegate.planner")
_FIRST_CONTACT_S = 5.0
_LAST_MS = 2**63 - 1
_UNIT = "eventTimeUnit"


class _State(TypedDict):
    cluster: NotRequired[str]
    eventTimeUnit: NotRequired[TimeUnit]


_SHAPE = TypeAdapter(_State)


class KafkaEnumerator(SplitEnumerator):
    """Enumerates the partitions of a subscription; looks at single records for their event times.

    starting, stopping: where new queries begin and, if anywhere, end.
    event_times: where they come from; a unit that is to be detected is asked for once.
    state: the last run's snapshot: the cluster that the checkpoint's offsets belong to, and the unit of
        event times that was detected.
    fail_on_data_loss: refuse to go on with another cluster.
    """

    positions_are_rows = True

    def __init__(
        self,
        config: KafkaConnectionConfig,
        subscription: Subscription,
        starting: OffsetsSpec,
        stopping: OffsetsSpec | None,
        state: Json | None = None,
        *,
        event_times: EventTimePolicy | None = None,
        fail_on_data_loss: bool = True,
    ) -> None:
        state = {} if state is None else checked(state, _SHAPE)
        self._client = KafkaClient(config)
        self._committed = config.isolation_level == "read_committed"
        self._subscription, self._starting, self._stopping = subscription, starting, stopping
        self._cluster_id: str | None = state.get("cluster")
        policy = with_detected_unit(event_times or EventTimePolicy(), state)
        self._detected = policy.unit_is_unknown or state.get(_UNIT) is not None
        self._find_head = HeadFinder(policy, check_crc=config.check_crcs, wall_clock=self.wall_clock)
        self._peeked = PeekedBatches()
        self._clock_ahead_s = 0.0
        self._fail_on_data_loss = fail_on_data_loss
        self._met = False
        self._found: list[TopicPartition] = []
        self._begins: dict[TopicPartition, int] = {}

    def discover(self) -> Collection[SplitId]:
        """Return the subscribed partitions; the first call fails fast when no broker is there."""
        deadline_s = None if self._met else min(_FIRST_CONTACT_S, self._client.config.deadline_s)
        self._found = find_partitions(self._subscription, self._client, deadline_s=deadline_s)
        if not self._met:
            self._met = True
            self._recognise_cluster()
        now_ms = self._client.clock_ms()
        self._clock_ahead_s = 0.0 if now_ms is None else now_ms / 1000 - time.time()
        return [partition.split_id for partition in self._found]

    def wall_clock(self) -> float:
        """Return the cluster's time, or the driver's where the cluster does not tell."""
        return time.time() + self._clock_ahead_s

    def details(self, wanted: SplitRange) -> int:
        """Return the time by which a reader tells what is in the future, in ms since the epoch."""
        del wanted
        if not self._met:  # a batch that an earlier run planned
            self.discover()
        return int(self.wall_clock() * 1000)

    def lost(self, removed: Positions) -> Collection[SplitId]:
        """Return the partitions that the cluster has no more; others are only not subscribed."""
        partitions = _partitions(removed)
        there = self._client.partitions({p.topic for p in partitions}) if partitions else {}
        return [p.split_id for p in partitions if p.partition not in there.get(p.topic, ())]

    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Resolve the starting offsets; partitions that appear later begin at their earliest offset."""
        spec = self._starting if first else OffsetsSpec("startingOffsets", EARLIEST)
        starts = _by_split(resolve(spec, _partitions(splits), self._client))
        if self._find_head.policy.unit_is_unknown:
            self.peek(starts)  # executors must know the unit, also where nothing is planned by time
        return starts

    def stops(self, splits: Collection[SplitId]) -> Mapping[SplitId, int | None]:
        """Resolve the ending offsets, if there are any."""
        if self._stopping is None or not splits:
            return dict.fromkeys(splits)
        return _by_split(resolve(self._stopping, _partitions(splits), self._client, self._found))

    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Ask for the log's beginnings and ends; settled when no transaction is open."""
        self._peeked.forget()
        partitions = _partitions(splits)
        self._begins = self._offsets(partitions, EARLIEST)
        # The high watermarks come first: a transaction that ends in between only looks settled later.
        high = self._client.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level="read_uncommitted")
        ends = self._offsets(partitions, LATEST) if self._committed else {p: high[p][0] for p in partitions}
        return {p.split_id: Extent(self._begins[p], ends[p], settled=ends[p] >= high[p][0]) for p in partitions}

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return offsets as rows, and bytes by the mean size of the records seen so far."""
        rows = {s: r.end - r.start for s, r in ranges.items()}
        size = self._find_head.bytes_per_record
        return Cost(sum(rows.values()), int(sum(count * size(TopicPartition.of(s)) for s, count in rows.items())))

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Look at the first record that counts, and that the isolation level shows, at or after each position."""
        found = self._client.peek(
            {TopicPartition.of(s): at for s, at in positions.items()}, self._find_head, self._peeked
        )
        return {p.split_id: Head(*seen) if seen is not None else None for p, seen in found.items()}

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return the event time of the last record before each end."""
        return last_before(self.peek, ends, self._begins_of(ends))

    def snapshot(self) -> Json | None:
        """Name the cluster, for offsets mean nothing on another one, and the unit that was detected."""
        state: Json = {} if self._cluster_id is None else {"cluster": self._cluster_id}
        if self._detected and (unit := getattr(self._find_head.policy.assigner, "unit", None)) is not None:
            state[_UNIT] = unit
        return state or None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _begins_of(self, splits: Collection[SplitId]) -> Positions:
        return {split: self._begins.get(TopicPartition.of(split), 0) for split in splits}

    def _recognise_cluster(self) -> None:
        before, now = self._cluster_id, self._client.cluster_id
        if now is None:
            return
        if before not in {None, now}:
            sentence = f"the checkpoint's offsets are of the Kafka cluster {before}, but {now} answers"
            if self._fail_on_data_loss:
                raise CheckpointError(
                    f"{sentence} at {self._client.config.bootstrap_servers}; start with a new checkpoint, "
                    "or set failOnDataLoss to false once if the new cluster holds the same offsets"
                )
            _LOG.warning("%s; it is taken to hold the same offsets", sentence)
        self._cluster_id = now

    def _offsets(self, partitions: Collection[TopicPartition], point: int) -> dict[TopicPartition, int]:
        return {p: offset for p, (offset, _) in self._client.list_offsets(dict.fromkeys(partitions, point)).items()}


class KafkaTimestampEnumerator(KafkaEnumerator):
    """Knows where event times stand without reading: Kafka indexes record timestamps."""

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Find the first entry at or after a time; it may be a transaction marker."""
        # Kafka takes negative times for the log's ends, and greater ones than a Long not at all.
        time_ms = min(max(event_time_ms, 0), _LAST_MS)
        answers = self._client.list_offsets(dict.fromkeys(_partitions(splits), time_ms))
        return {p.split_id: Head(offset, at) if offset >= 0 else None for p, (offset, at) in answers.items()}

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Ask for the greatest timestamp; where that is no record before the end, take the last record's."""
        begins = self._begins_of(ends)
        answers = self._client.list_offsets({TopicPartition.of(s): MAX_TIMESTAMP for s in ends})
        # Kafka may also name a record that is deleted by now.
        candidates = {s: Head(*found) for p, found in answers.items() if begins[s := p.split_id] <= found[0] < ends[s]}
        seen = self.peek({s: head.position for s, head in candidates.items()}) if candidates else {}
        latest: dict[SplitId, int | None] = {s: h.event_time_ms for s, h in candidates.items() if seen[s] == h}
        rest = {s: end for s, end in ends.items() if s not in latest}
        return latest | last_before(self.peek, rest, begins)


def with_detected_unit(policy: EventTimePolicy, state: Json | None) -> EventTimePolicy:
    """Return the policy with the unit that the snapshot ``state`` holds, where one is to be detected."""
    return policy.with_unit((state or {}).get(_UNIT)) if policy.unit_is_unknown else policy


def _partitions(splits: Collection[SplitId]) -> list[TopicPartition]:
    return [TopicPartition.of(split) for split in splits]


def _by_split(offsets: Mapping[TopicPartition, int]) -> dict[SplitId, int]:
    return {partition.split_id: offset for partition, offset in offsets.items()}
