"""A Kafka cluster as one client sees it: its brokers, who leads what, and asking the leaders."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from tidegate.errors import ConnectorError
from tidegate.readers.kafka_config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka_connection import BrokerConnection, decode_response
from tidegate.readers.retry import Deadline, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

__all__ = ["NO_ERROR", "KafkaCluster", "LeaderCall"]

Answer = TypeVar("Answer")

LONGEST_CONNECT_S = 10.0
REQUEST_TIMEOUT_MS = 30_000
UNKNOWN_TOPIC_GRACE_S = 5.0
METADATA_TOPIC = "__cluster_metadata"
NO_ERROR = kafka_errors.NoError.errno
UNKNOWN_TOPIC = kafka_errors.UnknownTopicOrPartitionError.errno


class KafkaCluster:
    """The connections to the brokers, one for each, and what is known of the partitions' leaders."""

    def __init__(self, config: KafkaConnectionConfig) -> None:
        self._config = config
        self._connections: dict[str, BrokerConnection] = {}
        self._leaders: dict[TopicPartition, str | None] = {}
        self.cluster_id: str | None = None

    def deadline(self, purpose: str, seconds: float | None = None) -> Deadline:
        """Return the time for one operation, from now on."""
        operation = f"reach Kafka at {self._config.bootstrap_servers} to {purpose}"
        return Deadline(operation, self._config.deadline_s if seconds is None else seconds)

    def request_timeout_s(self, deadline: Deadline) -> float:
        """Return how long one request may take."""
        timeout_ms: int = self._config.properties.get("request_timeout_ms", REQUEST_TIMEOUT_MS)
        return min(timeout_ms / 1000, deadline.remaining_s)

    def connection(self, address: str, timeout_s: float) -> BrokerConnection:
        """Return the connection to a broker, opened if need be."""
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = BrokerConnection(address, self._config.properties, min(timeout_s, LONGEST_CONNECT_S))
            self._connections[address] = connection
        return connection

    def leaders(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> dict[str, list[TopicPartition]]:
        """Return for each broker which of these partitions it leads.

        Raises TransientError if a partition has no leader or is unknown.
        """
        partitions = list(partitions)
        if not self._leaders.keys() >= set(partitions):
            self._refresh_leaders({each.topic for each in partitions}, deadline)
        led: dict[str, list[TopicPartition]] = {}
        for each in partitions:
            if each not in self._leaders:
                raise TransientError(f"Kafka knows no partition {each.split_id}", UNKNOWN_TOPIC_GRACE_S)
            leader = self._leaders[each]
            if leader is None:
                raise TransientError(f"the Kafka partition {each.split_id} has no leader")
            led.setdefault(leader, []).append(each)
        return led

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask for the leaders of these partitions anew before the next attempt."""
        for each in partitions:
            self._leaders.pop(each, None)

    def metadata(self, topics: Collection[str] | None, deadline: Deadline) -> Any:
        """Ask any broker, those first to which there is a connection; never create a topic."""
        request_topics = (
            None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        )
        while True:
            bootstrap = [each.strip() for each in self._config.bootstrap_servers.split(",")]
            random.shuffle(bootstrap)
            addresses = [*self._connections, *(each for each in bootstrap if each not in self._connections)]
            for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
                request = MetadataRequest(topics=request_topics, allow_auto_topic_creation=False, min_version=4)
                try:
                    response = self._ask(address, request, deadline.remaining_s / left)
                except TransientError as error:
                    cause = error
                    continue
                known = (topic for topic in response.topics if topic.error_code != UNKNOWN_TOPIC)
                failures = (_failure(topic.error_code, f"topic {topic.name}") for topic in known)
                failure = next(filter(None, failures), None)
                if failure is None:
                    self.cluster_id = response.cluster_id
                    return response
                cause = failure
            deadline.pause(cause)

    def clock_ms(self, deadline: Deadline) -> int | None:
        """Return the wall clock of the cluster's controller in ms; None: nobody tells.

        No request asks for the time.  But the leader of the metadata quorum says of itself that it is
        caught up now (KIP-836, since Kafka 3.3; needs the right to describe the cluster).
        """
        partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        for address in list(self._connections):
            request = DescribeQuorumRequest(topics=[topic], min_version=1)
            with suppress(TransientError, ConnectorError):
                response = self._ask(address, request, self.request_timeout_s(deadline))
                for found in (each for topic in response.topics for each in topic.partitions):
                    voters = {each.replica_id: each.last_caught_up_timestamp for each in found.current_voters}
                    at_ms: int = voters.get(found.leader_id, -1) if found.error_code == NO_ERROR else -1
                    return at_ms if at_ms > 0 else None
        return None

    def close(self) -> None:
        """Close all connections; may be called again, and the cluster may be used again."""
        while self._connections:
            self._connections.popitem()[1].close()
        self._leaders.clear()

    def _refresh_leaders(self, topics: Collection[str], deadline: Deadline) -> None:
        response = self.metadata(topics, deadline)
        addresses = {each.node_id: _address(each.host, each.port) for each in response.brokers}
        for topic in response.topics:
            for each in topic.partitions:
                self._leaders[TopicPartition(topic.name, each.partition_index)] = addresses.get(each.leader_id)

    def _ask(self, address: str, request: Any, timeout_s: float) -> Any:
        connection = self.connection(address, timeout_s)
        return decode_response(request, connection.receive(connection.send(request, timeout_s), timeout_s))


class LeaderCall(Generic[Answer]):
    """A request about partitions, sent at once to the leader of each, and repeated until all have answered.

    request: makes kafka-python's request for some of the partitions.
    read: yields each partition in a response with its error code and its answer.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        purpose: str,
        partitions: Iterable[TopicPartition],
        request: Callable[[Iterable[TopicPartition]], Any],
        read: Callable[[Any, memoryview], Iterator[tuple[TopicPartition, int, Answer]]],
    ) -> None:
        self._cluster = cluster
        self._purpose = purpose
        self._request = request
        self._read = read
        self._waiting = set(partitions)
        self._sent: list[tuple[BrokerConnection, list[TopicPartition], Any, int]] = []
        self._answers: dict[TopicPartition, Answer] = {}
        self._failure: TransientError | None = None
        self._send(cluster.deadline(purpose))

    def result(self) -> dict[TopicPartition, Answer]:
        """Wait for the answers of all partitions.

        Raises DeadlineError, or ConnectorError if no repetition helps.
        """
        deadline = self._cluster.deadline(self._purpose)
        self._receive(deadline)
        while self._waiting:
            deadline.pause(self._failure or TransientError("a broker left a partition out of its answer"))
            self._send(deadline)
            self._receive(deadline)
        return self._answers

    def _send(self, deadline: Deadline) -> None:
        self._failure = None
        try:
            for address, partitions in self._cluster.leaders(self._waiting, deadline).items():
                timeout_s = self._cluster.request_timeout_s(deadline)
                connection = self._cluster.connection(address, timeout_s)
                request = self._request(partitions)
                self._sent.append((connection, partitions, request, connection.send(request, timeout_s)))
        except TransientError as error:
            self._failure = error
            self._cluster.forget_leaders(self._waiting)

    def _receive(self, deadline: Deadline) -> None:
        for connection, partitions, request, request_id in self._sent:
            try:
                frame = connection.receive(request_id, self._cluster.request_timeout_s(deadline))
            except TransientError as error:
                self._failure = error
                self._cluster.forget_leaders(partitions)
                continue
            for partition, error_code, answer in self._read(request, frame):
                failure = _failure(error_code, f"partition {partition.split_id}")
                if failure is None:
                    self._answers[partition] = answer
                    self._waiting.discard(partition)
                else:
                    self._failure = failure
                    self._cluster.forget_leaders([partition])
        self._sent.clear()


def _failure(error_code: int, subject: str) -> TransientError | None:
    """Return what stands in the way of an answer, if anything.

    Raises ConnectorError if it will stay in the way.
    """
    if error_code == NO_ERROR:
        return None
    error = kafka_errors.for_code(error_code)
    sentence = f"Kafka answers {error.__name__} for {subject}"
    if not error.retriable:
        raise ConnectorError(sentence)
    return TransientError(sentence, UNKNOWN_TOPIC_GRACE_S if error_code == UNKNOWN_TOPIC else math.inf)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
