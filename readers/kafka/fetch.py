"""Kafka's fetch request and its response, and the followers that answer it.

Versions 4 to 11 name topics by name; brokers since 0.11 speak one of them, and Kafka 4 still speaks all.  Version 13
(Kafka 3.1) names them by id (KIP-516), so that a recreated topic answers with an error, not with its records.

A leader may name a follower that is nearer to the client (KIP-392).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from tidegate.errors import CorruptDataError
from tidegate.kafka_private import FetchRequest
from tidegate.readers.kafka.config import IsolationLevel, TopicPartition, by_topic

ISOLATION_LEVELS: Mapping[IsolationLevel, int] = {"read_uncommitted": 0, "read_committed": 1}
OLDEST_VERSION, NEWEST_VERSION_BY_NAME = 4, 11
NEWEST_VERSION = 13
SESSIONS_SINCE = 7
NO_REPLICA = -1
NO_SESSION = -1
NO_SESSION_ID = 0


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """A broker's answer for one partition.

    high_watermark: the position after the last replicated record.
    last_stable_offset: the position of the first open transaction, or the high watermark.
    aborted: producer id and first offset of each aborted transaction that the records may contain; empty unless the
        fetch was ``read_committed``.
    preferred_replica: the node id of a follower that is nearer to the client, and sends the records instead; -1: none.
    records: whole record batches and perhaps the beginning of another one.
    """

    high_watermark: int
    last_stable_offset: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview
    preferred_replica: int = NO_REPLICA

    def end(self, isolation_level: IsolationLevel) -> int:
        """Return the position after the last record that is visible now."""
        return self.last_stable_offset if isolation_level == "read_committed" else self.high_watermark


def fetch_request(
    isolation_level: IsolationLevel,
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, UUID],
    max_wait_ms: int,
    *,
    partition_bytes: int = 1,
    max_bytes: int = 1,
    rack: str = "",
    session: tuple[int, int] = (NO_SESSION_ID, NO_SESSION),
) -> Any:
    """Return a request for records, or as few bytes as possible; by name if the id of a topic is missing.

    positions: in a session those of partitions that are new in it, or have moved.
    topic_ids: in a session the ids of all its topics, or none.
    session: a fetch session (KIP-227): its id, NO_SESSION_ID for a new one, and the number of the request within it,
        from 0 on.
    """
    session_id, epoch = session
    by_id = bool(topic_ids) and {partition.topic for partition in positions} <= topic_ids.keys()
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=ISOLATION_LEVELS[isolation_level],
        session_id=session_id,
        session_epoch=epoch,
        topics=_topics(positions, partition_bytes, topic_ids),
        forgotten_topics_data=[],
        rack_id=rack,
        min_version=OLDEST_VERSION if epoch == NO_SESSION else SESSIONS_SINCE,
        max_version=NEWEST_VERSION if by_id else NEWEST_VERSION_BY_NAME,
    )


def _topics(positions: Mapping[TopicPartition, int], partition_bytes: int, topic_ids: Mapping[str, UUID]) -> list[Any]:
    topic_type = FetchRequest.FetchTopic

    def part(p: TopicPartition) -> Any:
        return topic_type.FetchPartition(
            partition=p.partition, fetch_offset=positions[p], partition_max_bytes=partition_bytes
        )

    return [
        topic_type(topic=topic, topic_id=topic_ids.get(topic, UUID(int=0)), partitions=parts)
        for topic, parts in by_topic(positions, part)
    ]


def fetched_partitions(
    response: Any, topic_ids: Mapping[str, UUID]
) -> Iterator[tuple[TopicPartition, int, FetchedPartition]]:
    """Yield each partition of kafka-python's response, with its error code.

    Raises CorruptDataError for another id.
    """
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    for answered in response.responses or ():
        topic = answered.topic or names.get(answered.topic_id)
        if topic is None:
            raise CorruptDataError("a broker answered a fetch with a topic id that was not requested")
        for part in answered.partitions or ():
            aborted = tuple((each.producer_id, each.first_offset) for each in part.aborted_transactions or ())
            records = memoryview(part.records or b"")
            yield (
                TopicPartition(topic, part.partition_index),
                part.error_code,
                FetchedPartition(
                    part.high_watermark, part.last_stable_offset, aborted, records, part.preferred_read_replica
                ),
            )


class _Choice(NamedTuple):
    node: int | None
    until: float


class PreferredReplicas:
    """Remembers for some seconds which follower a leader has named for a partition, or that it failed."""

    def __init__(self, lifetime_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime_s, self._clock = lifetime_s, clock
        self._choices: dict[TopicPartition, _Choice] = {}

    def prefer(self, partition: TopicPartition, node: int) -> None:
        """Read the partition from this follower from now on."""
        self._choices[partition] = _Choice(node, self._clock() + self._lifetime_s)

    def of(self, partition: TopicPartition) -> int | None:
        """Return the node id of the follower; None: ask the leader."""
        choice = self._choice(partition)
        return None if choice is None else choice.node

    def avoid(self, partition: TopicPartition) -> bool:
        """Read the partition from its leader for a while; return whether a follower was read until now."""
        was_follower = self.of(partition) is not None
        if was_follower:
            self._choices[partition] = _Choice(None, self._clock() + self._lifetime_s)
        return was_follower

    def is_avoided(self, partition: TopicPartition) -> bool:
        """Return whether the leader must not name a follower now."""
        choice = self._choice(partition)
        return choice is not None and choice.node is None

    def forget(self, partition: TopicPartition) -> None:
        """Ask the leader again, because the follower could not be asked."""
        if self.of(partition) is not None:
            del self._choices[partition]

    def _choice(self, partition: TopicPartition) -> _Choice | None:
        choice = self._choices.get(partition)
        return choice if choice is not None and self._clock() < choice.until else None
