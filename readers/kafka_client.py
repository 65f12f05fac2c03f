"""Asking a Kafka cluster: which partitions there are, where records stand, and the records themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.consumer import ListOffsetsRequest

from tidegate.errors import DataLossError
from tidegate.readers.kafka_batches import corruption_named, split_batches, visible_batches
from tidegate.readers.kafka_cluster import NO_ERROR, KafkaCluster, LeaderCall
from tidegate.readers.kafka_config import IsolationLevel, KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka_connection import decode_response
from tidegate.readers.kafka_fetch import ISOLATION_LEVELS, FetchedPartition, fetch_request, read_fetch_response

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from typing_extensions import Self

__all__ = ["EARLIEST", "LATEST", "MAX_TIMESTAMP", "KafkaClient"]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

Answer = TypeVar("Answer")

FEW_BYTES = 64 << 10
ISOLATION_SINCE = 2  # the versions of the list-offsets request that brought these
MAX_TIMESTAMP_SINCE = 7
OUT_OF_RANGE = kafka_errors.OffsetOutOfRangeError.errno


class _Look(NamedTuple):
    """What a peek saw: the head if there was one, else where to look next, if there may be more."""

    position: int
    head: tuple[int, int] | None
    more: bool


class KafkaClient:
    """Talks to the brokers of one cluster; not for several threads.

    Opens nothing before the first call, has no threads, and keeps one connection for each broker
    until :meth:`close`.  Every call is repeated until ``config.deadline_s`` while brokers restart
    or leaders move; then it raises DeadlineError.  Raises ConnectorError at once when a repetition
    cannot help: authentication, authorization, a topic that does not exist.
    """

    def __init__(self, config: KafkaConnectionConfig) -> None:
        self.config = config
        self._cluster = KafkaCluster(config)

    @property
    def cluster_id(self) -> str | None:
        """The id that the cluster has given itself; None before the first answer, or if it has none."""
        return self._cluster.cluster_id

    def partitions(
        self, topics: Collection[str] | None = None, *, deadline_s: float | None = None
    ) -> dict[str, tuple[int, ...]]:
        """Return the partitions of each topic, asked anew from a broker.

        None stands for all topics but Kafka's internal ones.  A topic that does not exist is absent
        from the answer, and is not created.  ``deadline_s`` replaces the config's, for a short
        first contact.
        """
        response = self._cluster.metadata(topics, self._cluster.deadline("list partitions", deadline_s))
        return {
            topic.name: tuple(sorted(each.partition_index for each in topic.partitions))
            for topic in response.topics
            if topic.partitions and not (topics is None and topic.is_internal)
        }

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return offset and timestamp of the record that each timestamp asks for.

        Milliseconds since the epoch ask for the first record at or after that time, MAX_TIMESTAMP
        for the one with the greatest; the offset is -1 if there is none.  EARLIEST asks for the
        first position that still exists, LATEST for the position after the last visible record;
        their timestamps are -1.  ``isolation_level`` replaces the config's: LATEST is the high
        watermark under ``read_uncommitted`` and the last stable offset under ``read_committed``.
        """
        isolation = ISOLATION_LEVELS[isolation_level or self.config.isolation_level]
        topic_type = ListOffsetsRequest.ListOffsetsTopic

        def request(asked: Iterable[TopicPartition]) -> Any:
            topics: dict[str, list[Any]] = {}
            for topic, partition in asked:
                topics.setdefault(topic, []).append(
                    topic_type.ListOffsetsPartition(
                        partition_index=partition, timestamp=timestamps[TopicPartition(topic, partition)]
                    )
                )
            return ListOffsetsRequest(
                isolation_level=isolation,
                topics=[topic_type(name=name, partitions=each) for name, each in topics.items()],
                min_version=MAX_TIMESTAMP_SINCE if MAX_TIMESTAMP in timestamps.values() else ISOLATION_SINCE,
            )

        def read(sent: Any, frame: memoryview) -> Iterator[tuple[TopicPartition, int, tuple[int, int]]]:
            for topic in decode_response(sent, frame).topics:
                for each in topic.partitions:
                    yield (
                        TopicPartition(topic.name, each.partition_index),
                        each.error_code,
                        (each.offset, each.timestamp),
                    )

        return LeaderCall(self._cluster, "list offsets", timestamps, request, read).result()

    def log_range(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the first position of a partition that still exists and the one after its last record."""
        (begin, _), (end, _) = (
            self.list_offsets({partition: which}, isolation_level="read_uncommitted")[partition]
            for which in (EARLIEST, LATEST)
        )
        return begin, end

    def fetch(self, partition: TopicPartition, position: int, useful_bytes: int) -> LeaderCall[FetchedPartition | None]:
        """Send a fetch of the record batches from ``position`` on; the call's result waits for them.

        Asks for at most ``useful_bytes`` within the config's limits, yet at least one whole batch
        comes.  The answer is None if the position is out of range.  Its records are valid until
        the client's next result.
        """
        partition_bytes = max(FEW_BYTES, min(useful_bytes, self.config.max_partition_fetch_bytes))
        return self._fetch(
            {partition: position}, partition_bytes, self.config.fetch_max_wait_ms, lambda _, fetched: fetched
        )

    def peek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int] | None]:
        """Return offset and timestamp (ms) of the first visible data record at or after each position.

        None says that there is none up to the end, which is the last stable offset under
        ``read_committed``.  Reads little: 64 KiB of each partition, one request per broker, then
        on from there where these hold only control records, aborted transactions or holes.
        Raises DataLossError if a position is not within its log.
        """
        heads = {}
        for partition, look in self._look(positions).items():
            while look.more:
                look = self._look({partition: look.position})[partition]  # noqa: PLW2901 - one step on
            heads[partition] = look.head
        return heads

    def close(self) -> None:
        """Close all connections; may be called again, and so may the other methods."""
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, _Look]:
        from tidegate.readers.kafka_records import first_record

        def look(partition: TopicPartition, fetched: FetchedPartition | None) -> _Look | None:
            if fetched is None:
                return None
            position = positions[partition]
            with corruption_named(partition.split_id):
                batches = split_batches(fetched.records)
                for batch in visible_batches(batches, fetched.aborted):
                    head = first_record(batch, position, check_crc=self.config.check_crcs)
                    if head is not None:
                        return _Look(position, head, more=False)
            if batches:
                return _Look(batches[-1].last_offset + 1, None, more=True)
            # Among others a partition may come away with no bytes; alone it gets one batch at least.
            hidden = len(positions) > 1 and position < fetched.end(self.config.isolation_level)
            return _Look(position, None, more=hidden)

        looks = self._fetch(positions, FEW_BYTES, 0, look).result()
        for partition, position in positions.items():
            if looks[partition] is None:
                begin, end = self.log_range(partition)
                raise DataLossError(
                    f"position {position} of {partition.split_id} does not exist: its log reaches from {begin} to {end}"
                )
        return {partition: each for partition, each in looks.items() if each is not None}

    def _fetch(
        self,
        positions: Mapping[TopicPartition, int],
        partition_bytes: int,
        max_wait_ms: int,
        use: Callable[[TopicPartition, FetchedPartition | None], Answer],
    ) -> LeaderCall[Answer]:
        def request(asked: Iterable[TopicPartition]) -> Any:
            return fetch_request(self.config, {each: positions[each] for each in asked}, partition_bytes, max_wait_ms)

        def read(sent: Any, frame: memoryview) -> Iterator[tuple[TopicPartition, int, Answer]]:
            for partition, error_code, fetched in read_fetch_response(frame, sent.API_VERSION):
                known = NO_ERROR if error_code == OUT_OF_RANGE else error_code
                yield partition, known, use(partition, None if error_code else fetched)

        return LeaderCall(self._cluster, "fetch records", positions, request, read)
