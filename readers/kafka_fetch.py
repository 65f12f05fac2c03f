"""Kafka's fetch request, and its response without a copy of the records.

The versions read here (4 to 10) name topics by name and have a fixed layout; brokers since 0.11
speak one of them, and Kafka 4 still speaks all.  From version 11 on, a leader may answer with no
records and the name of a follower to read from instead.  The layout is that of
``FetchResponse.json`` in Apache Kafka.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import FetchRequest

from tidegate.readers.kafka_config import IsolationLevel, KafkaConnectionConfig, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ISOLATION_LEVELS", "FetchedPartition", "fetch_request", "read_fetch_response"]

ISOLATION_LEVELS: Mapping[IsolationLevel, int] = {"read_uncommitted": 0, "read_committed": 1}
NEWEST_VERSION = 10
LOG_START_SINCE = 5
SESSIONS_SINCE = 7
NO_SESSION = -1


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """What a fetch found in one partition.

    high_watermark: the position after the last replicated record.
    last_stable_offset: the position of the first open transaction, or the high watermark.
    aborted: producer id and first offset of each aborted transaction that the records may hold;
        empty unless the fetch was ``read_committed``.
    records: whole record batches and perhaps the beginning of one more, valid until the
        connection's next response.
    """

    high_watermark: int
    last_stable_offset: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview

    def end(self, isolation_level: IsolationLevel) -> int:
        """Return the position after the last record that is visible now."""
        return self.last_stable_offset if isolation_level == "read_committed" else self.high_watermark


def fetch_request(
    config: KafkaConnectionConfig, positions: Mapping[TopicPartition, int], partition_bytes: int, max_wait_ms: int
) -> Any:
    """Return the request for the records of each partition from its position on, outside any session."""
    topics: dict[str, list[Any]] = {}
    for (topic, partition), position in positions.items():
        topics.setdefault(topic, []).append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=partition, fetch_offset=position, partition_max_bytes=partition_bytes
            )
        )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=config.fetch_max_bytes,
        isolation_level=ISOLATION_LEVELS[config.isolation_level],
        session_epoch=NO_SESSION,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=each) for topic, each in topics.items()],
        max_version=NEWEST_VERSION,
    )


def read_fetch_response(frame: memoryview, version: int) -> Iterator[tuple[TopicPartition, int, FetchedPartition]]:
    """Yield each partition of a response with its error code; ``frame`` begins with the header."""
    reader = _Reader(frame)
    reader.take(">ii")  # correlation id, throttle time
    if version >= SESSIONS_SINCE:
        reader.take(">hi")  # error code, session id
    for _ in range(reader.take(">i")[0]):
        (topic_length,) = reader.take(">h")
        topic = str(reader.bytes(topic_length), "utf-8")
        for _ in range(reader.take(">i")[0]):
            partition, error_code, high_watermark, last_stable_offset = reader.take(">ihqq")
            if version >= LOG_START_SINCE:
                reader.take(">q")
            aborted = tuple(reader.take(">qq") for _ in range(reader.take(">i")[0]))
            records = reader.bytes(reader.take(">i")[0])
            yield (
                TopicPartition(topic, partition),
                error_code,
                FetchedPartition(high_watermark, last_stable_offset, aborted, records),
            )


class _Reader:
    """Takes one field after the other; a length of -1 stands for null and yields no bytes."""

    def __init__(self, frame: memoryview) -> None:
        self._frame = frame
        self._at = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._frame, self._at)
        self._at += struct.calcsize(layout)
        return values

    def bytes(self, length: int) -> memoryview:
        start = self._at
        self._at += max(0, length)
        return self._frame[start : self._at]
