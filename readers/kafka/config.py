"""The configuration of connections to a Kafka cluster, and the names of its partitions as splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from tidegate.alignment.splits import SplitId
from tidegate.errors import OptionError
from tidegate.readers.decompression import DEFAULT_MOST_BYTES
from tidegate.readers.retry import FIRST_PAUSE_S, LONGEST_PAUSE_S

_Part = TypeVar("_Part")
IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]


class TopicPartition(NamedTuple):
    """A Kafka partition; as a split it is named ``topic-partition``, as Kafka names its folder."""

    topic: str
    partition: int

    @property
    def split_id(self) -> SplitId:
        """The name of this partition as a split."""
        return f"{self.topic}-{self.partition}"

    @staticmethod
    @lru_cache(1 << 16)
    def of(split_id: SplitId) -> TopicPartition:
        """Return the partition that ``split_id`` names; the last dash is the separator, as topics may contain dashes.

        Raises OptionError if it is not the name of a partition.
        """
        topic, dash, partition = split_id.rpartition("-")
        if not (topic and dash and partition.isdecimal()):
            raise OptionError(f"{split_id!r} names no Kafka partition; expected 'topic-partition', such as 'orders-0'")
        return TopicPartition(topic, int(partition))


def by_topic(
    partitions: Iterable[TopicPartition], part: Callable[[TopicPartition], _Part]
) -> Iterable[tuple[str, list[_Part]]]:
    """Return each topic with the parts of a request that are about its partitions."""
    topics: dict[str, list[_Part]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(part(partition))
    return topics.items()


@dataclass(frozen=True, slots=True)
class KafkaConnectionConfig:
    """How to reach a cluster and read from it; picklable, and the same on the driver and the executors.

    bootstrap_servers: ``host:port``, several separated by commas.
    properties: the settings of kafka-python's connections under its names (``security_protocol``, ``sasl_mechanism``,
        ``ssl_truststore_location``, ``client_id`` ...).  They hold secrets, so neither ``repr`` nor any error shows
        them.
    isolation_level: whether records of open and of aborted transactions are visible.
    max_decompressed_bytes: the maximum size of one decompressed record batch in memory.
    fetch_max_bytes: bytes of one fetch response; a single larger record batch still comes whole.
    max_partition_fetch_bytes: the same limit for each partition in the response.
    fetch_max_wait_ms: how long the broker may hold a fetch back while it has nothing to send.
    client_rack: the client's location; followers in the same location serve it (KIP-392).  Empty: leaders serve it.
    metadata_max_age_s: the number of seconds after which the leaders of partitions are requested again.
    deadline_s: seconds for one operation, retries included, while brokers are away.
    retry_pauses_s: seconds before the first retry, and the maximum before later ones; the pause doubles each time.
    """

    bootstrap_servers: str
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    isolation_level: IsolationLevel = "read_uncommitted"
    max_decompressed_bytes: int = DEFAULT_MOST_BYTES
    fetch_max_bytes: int = 4 << 20
    max_partition_fetch_bytes: int = 4 << 20
    fetch_max_wait_ms: int = 500
    client_rack: str = ""
    metadata_max_age_s: float = 300
    deadline_s: float = 60
    retry_pauses_s: tuple[float, float] = (FIRST_PAUSE_S, LONGEST_PAUSE_S)
