"""Asks a Kafka cluster for its partitions, for the positions of records, and for records.

A worker process keeps its clients for the next task: their connections for a while, their knowledge for longer.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from kafka import errors as kafka_errors
from typing_extensions import Self

from tidegate.errors import BrokerTooOldError, ConnectorError, CorruptDataError, PositionGoneError
from tidegate.kafka_private import ListOffsetsRequest, OffsetForLeaderEpochRequest
from tidegate.readers.kafka.batches import RecordBatch, split_batches
from tidegate.readers.kafka.cluster import NO_ERROR, REDIRECTED, KafkaCluster, LeaderCall
from tidegate.readers.kafka.config import IsolationLevel, KafkaConnectionConfig, TopicPartition, by_topic
from tidegate.readers.kafka.fetch import (
    ISOLATION_LEVELS,
    NO_REPLICA,
    FetchedPartition,
    fetch_request,
    fetched_partitions,
)
from tidegate.readers.kafka.watch import Watch, WatchedEnd
from tidegate.readers.kafka.wire.login import decode_response
from tidegate.readers.retry import Deadline

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4

FEW_BYTES = 64 << 10

Answer = TypeVar("Answer")
ISOLATION_SINCE = 2  # the versions of the list-offsets request that introduced these
SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}
OUT_OF_RANGE = kafka_errors.OffsetOutOfRangeError.errno
NOT_LEADER = kafka_errors.NotLeaderForPartitionError.errno
OTHER_TOPIC = {kafka_errors.UnknownTopicIdError.errno, kafka_errors.InconsistentTopicIdError.errno}
UNSUPPORTED = kafka_errors.UnsupportedVersionError.errno
CONSUMER = -1  # as a replica id


class ListedOffset(NamedTuple):
    """A leader's answer about a place in its log; -1 for a value that is missing, or that an old broker does not send.

    leader_epoch: the epoch of the record; if the request was for the end of the log, the epoch of the leader.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


UNKNOWN = ListedOffset(-1, -1, -1)


class KafkaClient:
    """Talks to the brokers of one cluster; not thread-safe.

    Opens nothing before the first call, has no threads, and keeps one connection to each broker until :meth:`close`.
    Every call is repeated while brokers restart or leaders move, until ``config.deadline_s``; then it raises
    DeadlineError.  It raises ConnectorError at once if repeating cannot help: authentication, authorization, a topic
    that does not exist.
    """

    def __init__(self, config: KafkaConnectionConfig) -> None:
        self.config = config
        # A follower learns late where the log ends, so it is used only for reading records.
        self._at_leaders = replace(config, client_rack="")
        self._cluster = KafkaCluster(config)
        self._watch = Watch(self._cluster, config)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's own id; None before the first answer, or if it has none."""
        return self._cluster.cluster_id

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """The ids of topics in the brokers' last answers (KIP-516); brokers before Kafka 2.8 send none."""
        return self._cluster.topic_ids

    def wait_for_leaders(self, seconds: float) -> None:
        """Set how long calls wait for a missing leader while the cluster answers; then they raise UnavailableError.

        By default they wait until their deadline.
        """
        self._cluster.patience_s = seconds

    def partitions(
        self,
        topics: Collection[str] | None = None,
        *,
        expected: Collection[str] = (),
        deadline_s: float | None = None,
    ) -> dict[str, tuple[int, ...]]:
        """Return the partitions of each topic that a broker knows now.

        None means all topics except Kafka's internal ones.  A topic that does not exist is absent from the answer, and
        is not created.  ``deadline_s`` replaces the config's, for a short first contact.

        A topic that is unknown is asked for again, since a broker may learn of a new one later than others.

        expected: topics that existed before.  If one is unknown now, the request is repeated until it is certain that
            the topic was deleted.  A broker that has just started does not know it yet.
        """
        response = self._cluster.metadata(topics, self._cluster.deadline("list partitions", deadline_s), expected)
        certain = self._cluster.deadline("list partitions")
        while (doubt := self._cluster.doubt(topics or (), expected)) is not None:
            certain.pause(doubt)
            response = self._cluster.metadata(topics, certain, expected)
        return {
            topic.name: tuple(sorted(partition.partition_index for partition in topic.partitions))
            for topic in response.topics
            if topic.partitions and not (topics is None and topic.is_internal)
        }

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return offset and timestamp of the record that each timestamp names.

        Milliseconds since the epoch ask for the first record at or after that time, MAX_TIMESTAMP for the record with
        the greatest timestamp.  The offset is -1 without one.  EARLIEST asks for the first position that still
        exists, and LATEST for the position after the last visible record.  EARLIEST_LOCAL asks for the first position
        on the broker's own disks; older ones are in tiered storage; their timestamps are -1.  ``isolation_level``
        replaces the config's: LATEST is the high watermark under ``read_uncommitted`` and the last stable offset under
        ``read_committed``.

        Brokers before Kafka 3.0 do not know MAX_TIMESTAMP, and brokers before 3.4 do not know EARLIEST_LOCAL.  Then no
        request is sent to the old broker, and all offsets are -1.
        """
        try:
            listed = self._list_offsets(timestamps, isolation_level).result()
        except BrokerTooOldError:
            if not SINCE.keys() & timestamps.values():
                raise
            plain = {partition: at for partition, at in timestamps.items() if at not in SINCE}
            listed = {**dict.fromkeys(timestamps, UNKNOWN), **self._list_offsets(plain, isolation_level).result()}
        return {partition: (offset.offset, offset.timestamp_ms) for partition, offset in listed.items()}

    def reachable_offsets(
        self, partitions: Collection[TopicPartition], point: int, *, isolation_level: IsolationLevel | None = None
    ) -> tuple[dict[TopicPartition, ListedOffset], dict[TopicPartition, ConnectorError]]:
        """Return the leaders' answers about EARLIEST or LATEST, and for each other partition why it has none.

        An UnknownPartitionError means that a partition is gone for good.  Any other error, once the time for leaders is
        over, means that its leader is away.
        """
        return self._list_offsets(dict.fromkeys(partitions, point), isolation_level).reached()

    def watch(self, ends: Mapping[TopicPartition, WatchedEnd]) -> None:
        """Learn the ends of partitions, for ``wait``."""
        self._watch.begin(ends, self.topic_ids)

    def wait(self, seconds: float) -> bool:
        """Wait until the ends may have changed since ``watch``; return False once a time limit is reached.

        The answer is a hint, and cheap for many partitions; see ``Watch``.  Returns at once if brokers give no hints.
        """
        return self._watch.wait(seconds)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Return for each partition the newest epoch up to a leader epoch that its log knows, and its end.

        Before that end the log is the same as in the leader of the epoch (KIP-101, KIP-320).  Both are -1 if the log
        has no such epoch; the answer is empty if a broker is too old (before Kafka 2.1).
        """
        topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic

        def part(p: TopicPartition) -> Any:
            return topic_type.OffsetForLeaderPartition(partition=p.partition, leader_epoch=epochs[p])

        def request(asked: Iterable[TopicPartition]) -> Any:
            topics = [topic_type(topic=name, partitions=parts) for name, parts in by_topic(asked, part)]
            return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=topics)

        def read(sent: Any, frame: memoryview) -> Iterator[tuple[TopicPartition, int, tuple[int, int]]]:
            for topic in decode_response(sent, frame).topics:
                for answer in topic.partitions:
                    yield (
                        TopicPartition(topic.topic, answer.partition),
                        answer.error_code,
                        (answer.leader_epoch, answer.end_offset),
                    )

        try:
            return LeaderCall(self._cluster, "compare leader epochs", epochs, request, read).result()
        except BrokerTooOldError:
            return {}

    def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: IsolationLevel | None
    ) -> LeaderCall[ListedOffset]:
        isolation = ISOLATION_LEVELS[isolation_level or self.config.isolation_level]
        topic_type = ListOffsetsRequest.ListOffsetsTopic

        def part(p: TopicPartition) -> Any:
            return topic_type.ListOffsetsPartition(partition_index=p.partition, timestamp=timestamps[p])

        def request(asked: Iterable[TopicPartition]) -> Any:
            return ListOffsetsRequest(
                isolation_level=isolation,
                topics=[topic_type(name=name, partitions=parts) for name, parts in by_topic(asked, part)],
                min_version=max(SINCE.get(timestamp, ISOLATION_SINCE) for timestamp in timestamps.values()),
            )

        def read(sent: Any, frame: memoryview) -> Iterator[tuple[TopicPartition, int, ListedOffset]]:
            for topic in decode_response(sent, frame).topics:
                for answer in topic.partitions:
                    partition = TopicPartition(topic.name, answer.partition_index)
                    # A new broker sends this error for a special timestamp while the cluster is being upgraded.
                    unknown = answer.error_code == UNSUPPORTED and timestamps[partition] in SINCE
                    yield (
                        partition,
                        NO_ERROR if unknown else answer.error_code,
                        UNKNOWN if unknown else ListedOffset(answer.offset, answer.timestamp, answer.leader_epoch),
                    )

        return LeaderCall(self._cluster, "list offsets", timestamps, request, read)

    def log_range(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the first position of a partition that still exists and the one after its last record."""
        (begin, _), (end, _) = (
            self.list_offsets({partition: which}, isolation_level="read_uncommitted")[partition]
            for which in (EARLIEST, LATEST)
        )
        return begin, end

    def fetch(
        self, partition: TopicPartition, position: int, useful_bytes: int, topic_id: UUID | None = None
    ) -> LeaderCall[FetchedPartition | None]:
        """Send a fetch of the record batches from ``position`` on; the result of the returned call waits for them.

        topic_id: the topic's id; the result raises PositionGoneError if another topic has taken its place.  With None,
            and with brokers before Kafka 3.1, any topic of that name is read.

        Asks for at most ``useful_bytes`` within the config's limits, yet at least one whole batch
        comes.  The answer is None if the position is out of range.
        """
        partition_bytes = max(FEW_BYTES, min(useful_bytes, self.config.max_partition_fetch_bytes))
        return self.fetch_parts(
            {partition: position},
            lambda _, fetched: fetched,
            {partition.topic: topic_id},
            partition_bytes,
            max_wait_ms=self.config.fetch_max_wait_ms,
        )

    def is_hole(self, partition: TopicPartition, position: int, end: int, topic_id: UUID | None = None) -> bool:
        """Return whether an empty answer from ``position``, below the visible ``end``, proves a hole between them.

        Compaction may leave such a hole where nothing visible follows it: before an open transaction, or before a
        segment to which nothing has been written.  But a broker also sends nothing while its tiered storage does not
        answer (KIP-1018), and then the records still exist.  Two things distinguish them:

        - A batch from ``end`` on, even of an open transaction.  The first batch at or after ``position`` always comes,
          whatever its size, so nothing is before it.
        - ``position`` is on the broker's own disks, whose records always come.  The first position on disk only grows,
          so ``position`` was also there when the empty answer was sent.
        """
        ((local, _),) = self.list_offsets({partition: EARLIEST_LOCAL}).values()
        # This comes last: if the leader has changed after the empty answer, this is the position of the new leader.
        config = replace(self._at_leaders, isolation_level="read_uncommitted")
        call = self.fetch_parts({partition: position}, _first_offset, {partition.topic: topic_id}, config=config)
        first = call.result()[partition]
        if first is not None:
            return first >= end
        return 0 <= local <= position

    def split(self, fetched: FetchedPartition) -> list[RecordBatch]:
        """Return the whole record batches of a fetch; see split_batches."""
        return split_batches(fetched.records, most_bytes=self.config.max_decompressed_bytes)

    def reading(self, partition: TopicPartition, end: int) -> Deadline:
        """Return the deadline for a broker to send records that it should have."""
        operation = f"read {partition.split_id} up to {end} from Kafka at {self.config.bootstrap_servers}"
        return Deadline(operation, self.config.deadline_s, pauses_s=self.config.retry_pauses_s)

    def close(self) -> None:
        """Close all connections; may be called again, and so may the other methods."""
        self._watch.close()
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch_parts(
        self,
        positions: Mapping[TopicPartition, int],
        use: Callable[[TopicPartition, FetchedPartition | None], Answer],
        topic_ids: Mapping[str, UUID | None],
        partition_bytes: int = FEW_BYTES,
        most_together: int | None = None,
        *,
        config: KafkaConnectionConfig | None = None,
        max_wait_ms: int = 0,
    ) -> LeaderCall[Answer]:
        """Send a fetch for many partitions, in requests for a few of them each; the result waits for the answers.

        use: turns a partition's part of the response into its answer; gets None if the position is out of range.
        partition_bytes: the limit for one partition; only the first one of a request gets a larger batch.

        The result raises PositionGoneError if another topic has taken its topic's place.
        """
        config, cluster = config or self.config, self._cluster
        topics = {partition.topic for partition in positions}
        known_ids = {topic: topic_id for topic in topics if (topic_id := topic_ids.get(topic)) is not None}
        refused: set[str] = set()

        def request(asked: Iterable[TopicPartition]) -> Any:
            for topic in refused:
                # A leader may not know a new topic yet.
                if cluster.topic_ids.get(topic) not in {None, known_ids[topic]}:
                    raise PositionGoneError(f"the Kafka topic {topic!r} was deleted and recreated")
            wanted = {partition: positions[partition] for partition in asked}
            return fetch_request(
                config.isolation_level,
                wanted,
                known_ids,
                max_wait_ms,
                partition_bytes=partition_bytes,
                max_bytes=config.fetch_max_bytes,
                rack="" if any(map(cluster.followers.is_avoided, wanted)) else config.client_rack,
            )

        def read(sent: Any, frame: memoryview) -> Iterator[tuple[TopicPartition, int, Answer]]:
            for partition, error_code, fetched in fetched_partitions(decode_response(sent, frame), known_ids):
                if partition not in positions:
                    raise CorruptDataError(f"a fetch response names {partition.split_id}, which was not requested")
                error = NO_ERROR if error_code == OUT_OF_RANGE else error_code
                if error_code in OTHER_TOPIC:
                    refused.add(partition.topic)
                if error_code == OUT_OF_RANGE and cluster.followers.avoid(partition):
                    error = NOT_LEADER  # a follower may lag behind; only the leader knows
                if error == NO_ERROR and fetched.preferred_replica != NO_REPLICA:
                    cluster.followers.prefer(partition, fetched.preferred_replica)
                    error = REDIRECTED
                yield partition, error, use(partition, None if error_code else fetched)

        return LeaderCall(
            cluster,
            "fetch records",
            positions,
            request,
            read,
            most_together=most_together,
            from_followers=bool(config.client_rack),
        )


def _first_offset(_: TopicPartition, fetched: FetchedPartition | None) -> int | None:
    """Return the base offset of the first batch, if one was sent."""
    batches = [] if fetched is None else split_batches(fetched.records)
    return batches[0].base_offset if batches else None


MOST_IDLE = 8
IDLE_SECONDS = 5.0  # Spark does not tell a worker that its query has stopped


class ClientPool:
    """Lends a client to one reader at a time, and closes all idle clients after a while.

    A closed client still knows the leaders of its partitions, and connects again when it is lent.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._begin()

    def _begin(self) -> None:
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[KafkaClient] = []
        self._timer: threading.Timer | None = None

    @contextmanager
    def lend(self, config: KafkaConnectionConfig) -> Iterator[KafkaClient]:
        """Lend a client for ``config``, an idle one if there is any."""
        client = self._take(config)
        try:
            yield client
        finally:
            self._return(client)

    def close(self) -> None:
        """Close the idle clients."""
        with self._lock:
            for client in self._idle:
                client.close()

    def _take(self, config: KafkaConnectionConfig) -> KafkaClient:
        if self._process_id != os.getpid():
            # Spark forks its workers: this process must not use its parent's sockets.
            inherited = self._idle
            self._begin()
            for client in inherited:
                client.close()
        with self._lock:
            pooled = next((idle for idle in self._idle if idle.config == config), None)
            if pooled is not None:
                self._idle.remove(pooled)
        return pooled or KafkaClient(config)

    def _return(self, client: KafkaClient) -> None:
        if sys.is_finalizing():  # an abandoned reader is closed: a thread that starts now never runs
            client.close()
            return
        with self._lock:
            self._idle.append(client)
            if len(self._idle) > MOST_IDLE:
                self._idle.pop(0).close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(self._idle_seconds, self.close)
            self._timer.daemon = True
            self._timer.start()


idle_clients = ClientPool()
atexit.register(idle_clients.close)
