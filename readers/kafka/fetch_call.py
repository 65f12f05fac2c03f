"""Sends one fetch of record batches to leaders, repeats it if these move, and checks the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import errors as kafka_errors

from tidegate.errors import CorruptDataError, PositionGoneError
from tidegate.readers.kafka.cluster import NO_ERROR, REDIRECTED, KafkaCluster, LeaderCall
from tidegate.readers.kafka.fetch import NO_REPLICA, FetchedPartition, fetch_request, fetched_partitions
from tidegate.readers.kafka.wire.connection import decode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from uuid import UUID

    from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition


Answer = TypeVar("Answer")

OUT_OF_RANGE = kafka_errors.OffsetOutOfRangeError.errno
NOT_LEADER = kafka_errors.NotLeaderForPartitionError.errno
OTHER_TOPIC = {kafka_errors.UnknownTopicIdError.errno, kafka_errors.InconsistentTopicIdError.errno}


def fetch_call(
    cluster: KafkaCluster,
    config: KafkaConnectionConfig,
    positions: Mapping[TopicPartition, int],
    use: Callable[[TopicPartition, FetchedPartition | None], Answer],
    topic_ids: Mapping[str, UUID | None],
    partition_bytes: int,
    *,
    max_wait_ms: int,
    most_together: int | None = None,
) -> LeaderCall[Answer]:
    """Send a fetch from ``positions`` on; the result of the returned call waits for the answers.

    use: turns a partition's part of the response into its answer; gets None if the position is out of range.
    partition_bytes: the limit for one partition; only the first one of a request gets a larger batch.

    The result raises PositionGoneError if another topic has taken its topic's place.
    """
    topics = {partition.topic for partition in positions}
    known_ids = {topic: topic_id for topic in topics if (topic_id := topic_ids.get(topic)) is not None}
    refused: set[str] = set()

    def request(asked: Iterable[TopicPartition]) -> Any:
        for topic in refused:
            # A leader may not know a new topic yet.
            if cluster.topic_ids.get(topic) not in {None, known_ids[topic]}:
                raise PositionGoneError(f"the Kafka topic {topic!r} was deleted and recreated")
        wanted = {partition: positions[partition] for partition in asked}
        rack = "" if any(map(cluster.nearby.is_avoided, wanted)) else config.client_rack
        return fetch_request(replace(config, client_rack=rack), wanted, partition_bytes, max_wait_ms, known_ids)

    def read(sent: Any, frame: memoryview) -> Iterator[tuple[TopicPartition, int, Answer]]:
        for partition, error_code, fetched in fetched_partitions(decode_response(sent, frame), known_ids):
            if partition not in positions:
                raise CorruptDataError(f"a fetch response names {partition.split_id}, which was not requested")
            error = NO_ERROR if error_code == OUT_OF_RANGE else error_code
            if error_code in OTHER_TOPIC:
                refused.add(partition.topic)
            if error_code == OUT_OF_RANGE and cluster.nearby.avoid(partition):
                error = NOT_LEADER  # a follower may lag behind; only the leader knows
            if error == NO_ERROR and fetched.preferred_replica != NO_REPLICA:
                cluster.nearby.prefer(partition, fetched.preferred_replica)
                error = REDIRECTED
            yield partition, error, use(partition, None if error_code else fetched)

    return LeaderCall(
        cluster,
        "fetch records",
        positions,
        request,
        read,
        most_together=most_together,
        nearby=bool(config.client_rack),
    )
