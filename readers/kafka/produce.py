"""Appends one record batch to a Kafka partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import errors as kafka_errors

from tidegate.errors import ConnectorError
from tidegate.kafka_private import ProduceRequest
from tidegate.readers.kafka.cluster import KafkaCluster, LeaderCall
from tidegate.readers.kafka.wire.connection import decode_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidegate.readers.kafka.config import TopicPartition

__all__ = ["produce_call"]

ALL_REPLICAS = -1
TIMEOUT_MS = 30_000
BY_NAME = 12  # later versions name topics by their ids
_REMEDIES = {
    kafka_errors.TopicAuthorizationFailedError: "the user needs the right (ACL) Write on the topic",
    kafka_errors.MessageSizeTooLargeError: "raise max.message.bytes of the topic",
    kafka_errors.RecordListTooLargeError: "raise max.message.bytes of the topic",
}


def produce_call(cluster: KafkaCluster, partition: TopicPartition, batch: bytes) -> LeaderCall[int]:
    """Send a record batch to the leader of a partition; the result waits until all replicas in sync have it.

    The result is the batch's base offset.  A batch whose answer is lost is sent again, so it may be there twice.  The
    result raises ConnectorError, with the remedy, if the broker refuses it for good.
    """

    def request(_: Iterable[TopicPartition]) -> Any:
        topic = ProduceRequest.TopicProduceData
        part = topic.PartitionProduceData(index=partition.partition, records=batch)
        return ProduceRequest(
            transactional_id=None,
            acks=ALL_REPLICAS,
            timeout_ms=TIMEOUT_MS,
            topic_data=[topic(name=partition.topic, partition_data=[part])],
            max_version=BY_NAME,
        )

    def read(sent: Any, frame: memoryview) -> Iterator[tuple[TopicPartition, int, int]]:
        (response,) = decode_response(sent, frame).responses
        (answer,) = response.partition_responses
        error = kafka_errors.for_code(answer.error_code)
        if error in _REMEDIES:
            raise ConnectorError(
                f"Kafka answers {error.__name__} to records for {partition.split_id}: {_REMEDIES[error]}"
            )
        yield partition, answer.error_code, answer.base_offset

    return LeaderCall(cluster, "write records", [partition], request, read)
