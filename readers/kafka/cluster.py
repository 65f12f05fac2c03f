"""A client's view of a Kafka cluster: its brokers, the leaders of partitions, and requests to leaders."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar
from uuid import UUID

from kafka import errors as kafka_errors

from tidegate.errors import ConnectorError, RefusedError, TransientError, UnavailableError, UnknownPartitionError
from tidegate.kafka_private import CoordinatorType, FindCoordinatorRequest, MetadataRequest
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.fetch import PreferredReplicas
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.readers.kafka.wire.login import decode_response
from tidegate.readers.retry import Deadline

Answer = TypeVar("Answer")

REQUEST_TIMEOUT_MS = 30_000
UNKNOWN_TOPIC_GRACE_S = 5.0
NEW_TOPIC_GRACE_S = 1.0
IN_FLIGHT = 3  # requests of a call to one broker, which works on the next one while we read an answer
NO_ERROR = kafka_errors.NoError.errno
UNKNOWN_TOPIC = kafka_errors.UnknownTopicOrPartitionError.errno
NO_TOPIC_ID = UUID(int=0)
REDIRECTED = -1000
"""In place of an error code: ask another replica at once."""


class KafkaCluster:
    """One connection to each broker, and the known leaders of partitions.

    cluster_id, topic_ids: from the brokers' last answers; empty if they have no such ids (before 0.10.1 and 2.8).
    followers: the replicas that serve this client better than leaders.
    patience_s: how long a call waits for partitions without an answering leader, while the cluster answers.
    """

    def __init__(self, config: KafkaConnectionConfig) -> None:
        self._config = config
        self._connections: dict[str, BrokerConnection] = {}
        self._brokers: list[str] = []
        self._nodes: dict[int | None, str] = {}
        self._away: set[str] = set()  # addresses that failed when they were last tried
        self._leaders: dict[TopicPartition, str | None] = {}
        self._absences = _Absences(config.deadline_s)
        self._leaders_since = time.monotonic()
        self.followers = PreferredReplicas(config.metadata_max_age_s)
        self._refusal: str | None = None
        self.cluster_id: str | None = None
        self.topic_ids: dict[str, UUID] = {}
        self.patience_s = math.inf

    def deadline(self, purpose: str, seconds: float | None = None) -> Deadline:
        """Return the time limit of one operation that begins now."""
        operation = f"reach Kafka at {self._config.bootstrap_servers} to {purpose}"
        limit_s = self._config.deadline_s if seconds is None else seconds
        return Deadline(operation, limit_s, pauses_s=self._config.retry_pauses_s)

    def request_timeout_s(self, deadline: Deadline) -> float:
        """Return how long one request may take."""
        timeout_ms: int = self._config.properties.get("request_timeout_ms", REQUEST_TIMEOUT_MS)
        return min(timeout_ms / 1000, deadline.remaining_s)

    def connection(self, address: str, timeout_s: float) -> BrokerConnection:
        """Return the connection to a broker, and open it if needed.

        A refusal is remembered until :meth:`close`: repeated attempts may lock a login out.
        """
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            if self._refusal is not None:
                raise RefusedError(self._refusal)
            try:
                connection = BrokerConnection(address, self._config.properties, timeout_s)
            except RefusedError as error:
                self._refusal = str(error)
                raise
            except TransientError:
                self._failed(address)
                raise
            self._connections[address] = connection
            self._away.discard(address)
        return connection

    def lost(self, connection: BrokerConnection) -> None:
        """Handle a failed request: the connection is lost, or only the response."""
        # Requests that follow on a lost connection also fail, when another one may be open already.
        if connection.is_closed and self._connections.get(connection.address, connection) is connection:
            self._failed(connection.address)

    def leaders(
        self, partitions: Iterable[TopicPartition], deadline: Deadline, *, from_followers: bool = False
    ) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, ConnectorError]]:
        """Return the partitions that each broker leads, and why the others have no leader.

        from_followers: use the replica that a leader has named for this client, if there is one.

        An UnknownPartitionError means that a partition is gone for good, a TransientError that it may come.
        """
        partitions = list(partitions)
        if time.monotonic() - self._leaders_since > self._config.metadata_max_age_s:
            self._leaders.clear()
            self._leaders_since = time.monotonic()
        if not self._leaders.keys() >= set(partitions):
            self._refresh_leaders({partition.topic for partition in partitions}, deadline)
            self._absences.observe(partitions, self._leaders)
        led: dict[str, list[TopicPartition]] = {}
        failures: dict[TopicPartition, ConnectorError] = {}
        for partition in partitions:
            leader = self._leaders.get(partition)
            if leader is not None:
                replica = self._nodes.get(self.followers.of(partition)) if from_followers else None
                led.setdefault(replica or leader, []).append(partition)
            elif partition in self._leaders:
                failures[partition] = TransientError(f"the Kafka partition {partition.split_id} has no leader")
            else:
                kind = UnknownPartitionError if self._absences.is_over(partition) else TransientError
                failures[partition] = kind(f"Kafka knows no partition {partition.split_id}")
        return led, failures

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask for the leaders of these partitions again before the next attempt."""
        for partition in partitions:
            self._leaders.pop(partition, None)
            self.followers.forget(partition)

    def metadata(self, topics: Collection[str] | None, deadline: Deadline, expected: Collection[str] = ()) -> Any:
        """Ask any broker, connected ones first; never create a topic."""
        named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]

        def failure(response: Any) -> TransientError | None:
            failures = (failure_of(topic.error_code, f"topic {topic.name}") for topic in _existing(response))
            return next(filter(None, failures), None)

        response = self._ask_any(
            lambda: MetadataRequest(topics=named, allow_auto_topic_creation=False, min_version=4), failure, deadline
        )
        self._learn(response, {*(topics or ()), *expected})
        return response

    def doubt(self, topics: Iterable[str], expected: Collection[str]) -> TransientError | None:
        """Return an error for a topic that the last metadata lacks, but that may become known.

        expected: topics that existed before.  Others may just have been created.
        """
        for topic in (*topics, *expected):
            if self._absences.is_absent(topic) and not self._absences.is_over(topic, is_new=topic not in expected):
                return TransientError(f"Kafka knows no topic {topic}")
        return None

    def coordinator(self, group_id: str, deadline: Deadline) -> str:
        """Return the address of the broker that keeps the offsets of a consumer group.

        Raises ConnectorError if the cluster refuses, and DeadlineError.
        """
        response = self._ask_any(
            # Later versions of the request have several keys.
            lambda: FindCoordinatorRequest(key=group_id, key_type=CoordinatorType.GROUP, max_version=3),
            lambda answer: failure_of(answer.error_code, f"the consumer group {group_id!r}"),
            deadline,
        )
        return _address(response.host, response.port)

    def close(self) -> None:
        """Close all connections; may be called again, and the cluster may be used again.

        The leaders stay known: a broker that no longer leads says so, as it does while connections are open.
        """
        while self._connections:
            self._connections.popitem()[1].close()
        # A partition that was missing long ago may just have been created.
        self._absences = _Absences(self._config.deadline_s)
        self._refusal = None

    def _addresses(self) -> list[str]:
        """Return the addresses to ask: connections, brokers, bootstrap servers, and last those that did not answer."""
        bootstrap = [address.strip() for address in self._config.bootstrap_servers.split(",")]
        random.shuffle(bootstrap)
        addresses = dict.fromkeys([*self._connections, *self._brokers, *bootstrap])
        return sorted(addresses, key=self._away.__contains__)

    def _failed(self, address: str) -> None:
        self._connections.pop(address, None)
        self._away.add(address)
        self._absences.begin_anew()

    def _ask_any(
        self, request: Callable[[], Any], failure: Callable[[Any], TransientError | None], deadline: Deadline
    ) -> Any:
        """Return the first answer of a broker without a failure; each has its share of the time that is left."""
        cause = TransientError("no broker answers")
        while True:
            addresses = self._addresses()
            for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
                try:
                    response = self.ask(address, request(), deadline.remaining_s / left)
                except TransientError as error:
                    cause = error
                    continue
                if (problem := failure(response)) is None:
                    return response
                cause = problem
            deadline.pause(cause)

    def _learn(self, response: Any, asked: Collection[str]) -> None:
        existing = _existing(response)
        self.cluster_id = response.cluster_id
        self._nodes = {broker.node_id: _address(broker.host, broker.port) for broker in response.brokers}
        self._brokers = list(self._nodes.values())
        names = {topic.name for topic in existing}
        self._absences.observe(asked, names)
        for topic in [*self.topic_ids.keys() & (set(asked) - names)]:
            del self.topic_ids[topic]
        self.topic_ids.update({topic.name: topic.topic_id for topic in existing if _has_id(topic)})

    def _refresh_leaders(self, topics: Collection[str], deadline: Deadline) -> None:
        response = self.metadata(topics, deadline)
        for topic in response.topics:
            for state in topic.partitions:
                self._leaders[TopicPartition(topic.name, state.partition_index)] = self._nodes.get(state.leader_id)

    def ask(self, address: str, request: Any, timeout_s: float) -> Any:
        """Return the answer of one broker to one of kafka-python's requests.  Raises TransientError."""
        connection = self.connection(address, timeout_s)
        try:
            frame = connection.receive(connection.send(request, timeout_s), timeout_s)
        except TransientError:
            self.lost(connection)
            raise
        return decode_response(request, frame)


class _Absences:
    """Remembers how long the brokers have not known partitions and topics.

    A broker that has just started does not know them yet, and other brokers do not know a new one, so they count as
    gone only after a while, and later if a broker was away.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._since: dict[Hashable, float] = {}
        self._begun_at = -math.inf

    def begin_anew(self) -> None:
        """Start all waits again, because a broker was away."""
        self._since.clear()
        self._begun_at = time.monotonic()

    def observe(self, asked: Iterable[Hashable], known: Collection[Hashable]) -> None:
        now = time.monotonic()
        for wanted in asked:
            if wanted in known:
                self._since.pop(wanted, None)
            else:
                self._since.setdefault(wanted, now)

    def is_absent(self, asked: Hashable) -> bool:
        return asked in self._since

    def is_over(self, asked: Hashable, *, is_new: bool = False) -> bool:
        now = time.monotonic()
        was_away = now - self._begun_at < 2 * self._longest_s
        grace_s = NEW_TOPIC_GRACE_S if is_new else self._longest_s if was_away else UNKNOWN_TOPIC_GRACE_S
        return now - self._since.get(asked, now) >= min(grace_s, self._longest_s)


class LeaderCall(Generic[Answer]):
    """A request about partitions, sent at once to the leader of each, and repeated until all have answered.

    request: creates kafka-python's request for some of the partitions.
    read: yields each partition in a response with its error code, or REDIRECTED, and its answer.
    most_together: the maximum number of partitions in one request; a leader of more gets several requests, a few at a
        time.
    from_followers: ask the replicas that leaders have named for this client, if there are any.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        purpose: str,
        partitions: Iterable[TopicPartition],
        request: Callable[[Iterable[TopicPartition]], Any],
        read: Callable[[Any, memoryview], Iterator[tuple[TopicPartition, int, Answer]]],
        *,
        most_together: int | None = None,
        from_followers: bool = False,
    ) -> None:
        self._from_followers, self._redirected, self._is_lost = from_followers, False, False
        self._cluster = cluster
        self._purpose = purpose
        self._request = request
        self._read = read
        self._most_together = most_together
        self._waiting = set(partitions)
        self._unsent: dict[str, deque[list[TopicPartition]]] = {}
        self._sent: deque[tuple[BrokerConnection, list[TopicPartition], Any, int]] = deque()
        self._answers: dict[TopicPartition, Answer] = {}
        self._failures: dict[TopicPartition, ConnectorError] = {}
        self._send(cluster.deadline(purpose))

    def result(self) -> dict[TopicPartition, Answer]:
        """Wait for the answers of all partitions.

        Raises DeadlineError; UnavailableError once the cluster's patience is over; UnknownPartitionError, or
        another ConnectorError, if no repetition helps.
        """
        answers, failures = self.reached()
        if failures:
            cause = next((e for e in failures.values() if isinstance(e, UnknownPartitionError)), None)
            kind = UnavailableError if cause is None else UnknownPartitionError
            failure = cause or next(iter(failures.values()))
            raise kind(f"cannot {self._cluster.deadline(self._purpose).operation}: {failure}")
        return answers

    def reached(self) -> tuple[dict[TopicPartition, Answer], dict[TopicPartition, ConnectorError]]:
        """Wait for the answers that come, and return for each other partition why it has none.

        After ``patience_s`` a call is repeated once if its connection was lost.  An UnknownPartitionError means that a
        partition is gone for good.  Raises DeadlineError, or ConnectorError if the cluster refuses.
        """
        deadline = self._cluster.deadline(self._purpose)
        self._receive(deadline)
        may_repeat = True  # a broker may end an idle connection, or one whose login is old, and be healthy
        while self._waiting and (deadline.elapsed_s < self._cluster.patience_s or (self._is_lost and may_repeat)):
            may_repeat = False
            if not self._redirected:
                cause = next(error for error in self._failures.values() if isinstance(error, TransientError))
                deadline.pause(cause)
            self._redirected = False
            self._send(deadline)
            self._receive(deadline)
        return self._answers, self._failures

    def _send(self, deadline: Deadline) -> None:
        left_out = TransientError("a broker left a partition out of its answer")
        self._failures.update(dict.fromkeys(self._waiting, left_out))
        led, failures = self._cluster.leaders(self._waiting, deadline, from_followers=self._from_followers)
        for partition, failure in failures.items():
            self._fail([partition], failure)
        self._waiting -= {p for p, failure in failures.items() if isinstance(failure, UnknownPartitionError)}
        most = self._most_together or len(self._waiting)
        for address, partitions in led.items():
            parts = [partitions[at : at + most] for at in range(0, len(partitions), most)]
            self._unsent[address] = deque(parts)
            for _ in parts[:IN_FLIGHT]:
                self._send_next(address, deadline)

    def _send_next(self, address: str, deadline: Deadline) -> None:
        unsent = self._unsent[address]
        if not unsent:
            return
        partitions = unsent.popleft()
        timeout_s = self._cluster.request_timeout_s(deadline)
        request = self._request(partitions)
        try:
            connection = self._cluster.connection(address, timeout_s)
            self._sent.append((connection, partitions, request, connection.send(request, timeout_s)))
        except TransientError as error:
            self._fail([*partitions, *(partition for later in unsent for partition in later)], error)
            unsent.clear()

    def _receive(self, deadline: Deadline) -> None:
        while self._sent:
            connection, partitions, request, request_id = self._sent.popleft()
            self._send_next(connection.address, deadline)
            try:
                frame = connection.receive(request_id, self._cluster.request_timeout_s(deadline))
            except TransientError as error:
                self._is_lost |= connection.is_closed and not isinstance(error.__cause__, TimeoutError)
                self._cluster.lost(connection)
                self._fail(partitions, error)
                continue
            for partition, error_code, answer in self._read(request, frame):
                if error_code == REDIRECTED:
                    self._redirected = True
                    continue
                failure = failure_of(error_code, f"partition {partition.split_id}") if error_code else None
                if failure is None:
                    self._answers[partition] = answer
                    self._waiting.discard(partition)
                    self._failures.pop(partition, None)
                else:
                    self._fail([partition], failure)

    def _fail(self, partitions: Iterable[TopicPartition], failure: ConnectorError) -> None:
        self._failures.update(dict.fromkeys(partitions, failure))
        self._cluster.forget_leaders(partitions)


def failure_of(error_code: int, subject: str) -> TransientError | None:
    """Return the error that prevents an answer, if there is one.

    Raises ConnectorError if it will not pass.
    """
    if error_code == NO_ERROR:
        return None
    error = kafka_errors.for_code(error_code)
    sentence = f"Kafka answers {error.__name__} for {subject}"
    if error is kafka_errors.TopicAuthorizationFailedError:
        raise ConnectorError(f"{sentence}: the user needs the rights (ACLs) Describe and Read on the topic")
    if not error.retriable:
        raise ConnectorError(sentence)
    return TransientError(sentence)


def _existing(response: Any) -> list[Any]:
    return [topic for topic in response.topics if topic.error_code != UNKNOWN_TOPIC]


def _has_id(topic: Any) -> bool:
    return getattr(topic, "topic_id", None) not in {None, NO_TOPIC_ID}


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
