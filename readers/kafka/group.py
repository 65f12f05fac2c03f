"""Reads and commits the offsets of a consumer group without being a member."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kafka import errors as kafka_errors

from tidegate.errors import ConnectorError, TransientError
from tidegate.kafka_private import OffsetCommitRequest, OffsetFetchRequest
from tidegate.readers.kafka.cluster import KafkaCluster, failure_of
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition, by_topic

_Answer = TypeVar("_Answer")

# Later versions name topics by their ids, or several groups in one request.
COMMIT_BY_NAME = 9
FETCH_OF_ONE_GROUP = 7
_HAS_MEMBERS = {kafka_errors.UnknownMemberIdError.errno, kafka_errors.IllegalGenerationError.errno}


class ConsumerGroup:
    """The committed offsets of one group; not thread-safe.

    Opens nothing before the first call, and keeps its connections until :meth:`close`.  Each call is repeated until
    ``config.deadline_s`` while brokers restart; then it raises DeadlineError.  Raises ConnectorError at once if the
    cluster refuses.
    """

    def __init__(self, config: KafkaConnectionConfig, group_id: str) -> None:
        self._cluster, self._group_id = KafkaCluster(config), group_id
        self._coordinator: str | None = None

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset that is committed for each partition; partitions without one are left out."""
        topic_type = OffsetFetchRequest.OffsetFetchRequestTopic
        request = OffsetFetchRequest(
            group_id=self._group_id,
            topics=[
                topic_type(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(partitions, lambda p: p.partition)
            ],
            require_stable=True,  # an offset of an open transaction is not committed yet
            max_version=FETCH_OF_ONE_GROUP,
        )

        def read(response: Any) -> dict[TopicPartition, int]:
            self._check([response.error_code, *(answer.error_code for _, answer in _answers(response))])
            return {p: answer.committed_offset for p, answer in _answers(response) if answer.committed_offset >= 0}

        return self._asked(request, "ask for the offsets", read) if partitions else {}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the next offset of each partition.

        Kafka refuses this while the group has members, because members commit themselves.
        """
        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic

        def part(p: TopicPartition) -> Any:
            return topic_type.OffsetCommitRequestPartition(
                partition_index=p.partition, committed_offset=offsets[p], committed_metadata=""
            )

        request = OffsetCommitRequest(
            group_id=self._group_id,
            topics=[topic_type(name=topic, partitions=parts) for topic, parts in by_topic(offsets, part)],
            max_version=COMMIT_BY_NAME,
        )
        self._asked(
            request, "commit offsets", lambda response: self._check(a.error_code for _, a in _answers(response))
        )

    def close(self) -> None:
        """Close all connections; may be called again."""
        self._cluster.close()

    def _asked(self, request: Any, purpose: str, read: Callable[[Any], _Answer]) -> _Answer:
        deadline = self._cluster.deadline(f"{purpose} of the consumer group {self._group_id!r}")
        while True:
            try:
                if self._coordinator is None:
                    self._coordinator = self._cluster.coordinator(self._group_id, deadline)
                return read(self._cluster.ask(self._coordinator, request, self._cluster.request_timeout_s(deadline)))
            except TransientError as error:  # noqa: PERF203 - it is repeated
                self._coordinator = None  # it may have moved
                deadline.pause(error)

    def _check(self, error_codes: Iterable[int]) -> None:
        for code in error_codes:
            if code in _HAS_MEMBERS:
                raise ConnectorError(
                    f"the consumer group {self._group_id!r} has members, and only they may commit its offsets"
                )
            failure = failure_of(code, f"the consumer group {self._group_id!r}")
            if failure is not None:
                raise failure


def _answers(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics:
        for answer in topic.partitions:
            yield TopicPartition(topic.name, answer.partition_index), answer
