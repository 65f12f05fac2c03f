"""Kafka's fetch request, and its response without a copy of the records.

Versions 4 to 11 name topics by name; brokers since 0.11 speak one of them, and Kafka 4 still speaks all.  Version 13
(Kafka 3.1) names them by id (KIP-516), so that a recreated topic answers with an error, not with its records.  Version
12 brought lengths and counts of variable size (KIP-482).  The layout is that of ``FetchResponse.json`` in Apache Kafka.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tidegate.errors import CorruptDataError
from tidegate.kafka_private import FetchRequest
from tidegate.readers.kafka.config import IsolationLevel, KafkaConnectionConfig, TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "ISOLATION_LEVELS",
    "NO_SESSION_ID",
    "FetchedPartition",
    "fetch_request",
    "read_fetch_response",
    "read_session",
    "session_request",
]

ISOLATION_LEVELS: Mapping[IsolationLevel, int] = {"read_uncommitted": 0, "read_committed": 1}
NEWEST_VERSION_BY_NAME = 11
NEWEST_VERSION = 13
LOG_START_SINCE = 5
SESSIONS_SINCE = 7
PREFERRED_REPLICA_SINCE = 11  # for clients that name a rack (KIP-392)
NO_REPLICA = -1
VARIABLE_SIZES_SINCE = 12
TOPIC_IDS_SINCE = 13
NO_SESSION = -1
NO_SESSION_ID = 0
LARGEST_SHIFT = 28  # the shift of the last byte of a 32-bit number of variable size


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """A broker's answer for one partition.

    high_watermark: the position after the last replicated record.
    last_stable_offset: the position of the first open transaction, or the high watermark.
    aborted: producer id and first offset of each aborted transaction that the records may contain; empty unless the
        fetch was ``read_committed``.
    preferred_replica: the node id of a follower that is nearer to the client, and sends the records instead; -1: none.
    records: whole record batches and perhaps the beginning of another one, valid until the connection's next response.
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
    config: KafkaConnectionConfig,
    positions: Mapping[TopicPartition, int],
    partition_bytes: int,
    max_wait_ms: int,
    topic_ids: Mapping[str, UUID],
) -> Any:
    """Return the request for the records of each partition from its position on, outside any session.

    topic_ids: the ids of all topics; if one is missing, the request uses names.
    """
    by_id = {partition.topic for partition in positions} <= topic_ids.keys()
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=config.fetch_max_bytes,
        isolation_level=ISOLATION_LEVELS[config.isolation_level],
        session_epoch=NO_SESSION,
        topics=_topics(positions, partition_bytes, topic_ids),
        rack_id=config.client_rack,
        max_version=NEWEST_VERSION if by_id else NEWEST_VERSION_BY_NAME,
    )


def session_request(
    isolation_level: IsolationLevel,
    positions: Mapping[TopicPartition, int],
    session: tuple[int, int],
    max_wait_ms: int,
    topic_ids: Mapping[str, UUID],
) -> Any:
    """Return a request of a fetch session (KIP-227) that asks for as few bytes as possible.

    positions: the positions of partitions that are new in the session, or have moved.
    session: its id, NO_SESSION_ID for a new one, and the number of the request within it, from 0 on.
    topic_ids: the ids of all topics of the session; if empty, the request uses names.
    """
    session_id, epoch = session
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1,
        isolation_level=ISOLATION_LEVELS[isolation_level],
        session_id=session_id,
        session_epoch=epoch,
        topics=_topics(positions, 1, topic_ids),
        forgotten_topics_data=[],
        min_version=SESSIONS_SINCE,
        max_version=NEWEST_VERSION if topic_ids else NEWEST_VERSION_BY_NAME,
    )


def read_session(frame: memoryview, version: int) -> tuple[int, int]:
    """Return the error code and the session id of a response."""
    reader = _begun(frame, version)
    error_code, session_id = reader.take(">hi")
    return error_code, session_id


def _topics(positions: Mapping[TopicPartition, int], partition_bytes: int, topic_ids: Mapping[str, UUID]) -> list[Any]:
    return [
        FetchRequest.FetchTopic(
            topic=topic,
            topic_id=topic_ids.get(topic, UUID(int=0)),
            partitions=[
                FetchRequest.FetchTopic.FetchPartition(
                    partition=p.partition, fetch_offset=positions[p], partition_max_bytes=partition_bytes
                )
                for p in partitions
            ],
        )
        for topic, partitions in by_topic(positions).items()
    ]


def read_fetch_response(
    frame: memoryview, version: int, topic_ids: Mapping[str, UUID]
) -> Iterator[tuple[TopicPartition, int, FetchedPartition]]:
    """Yield each partition of a response with its error code; ``frame`` begins with the header.

    topic_ids: the ids in the request.

    Raises CorruptDataError for a malformed response.
    """
    names = {topic_id.bytes: topic for topic, topic_id in topic_ids.items()}
    reader = _begun(frame, version)
    if version >= SESSIONS_SINCE:
        reader.take(">hi")  # error code, session id
    for _ in range(reader.size(">i")):
        topic = names.get(bytes(reader.bytes(16))) if version >= TOPIC_IDS_SINCE else reader.string()
        if topic is None:
            raise CorruptDataError("a broker answered a fetch with a topic id that was not requested")
        for _ in range(reader.size(">i")):
            partition, error_code, high_watermark, last_stable_offset = reader.take(">ihqq")
            if version >= LOG_START_SINCE:
                reader.take(">q")
            aborted = []
            for _ in range(reader.size(">i")):
                aborted.append(reader.take(">qq"))
                reader.skip_tags()
            preferred = reader.take(">i")[0] if version >= PREFERRED_REPLICA_SINCE else NO_REPLICA
            records = reader.bytes(reader.size(">i"))
            reader.skip_tags()
            yield (
                TopicPartition(topic, partition),
                error_code,
                FetchedPartition(high_watermark, last_stable_offset, tuple(aborted), records, preferred),
            )
        reader.skip_tags()


def _begun(frame: memoryview, version: int) -> _Reader:
    """Return a reader of a response, positioned after the fields that all versions have."""
    reader = _Reader(frame, variable_sizes=version >= VARIABLE_SIZES_SINCE)
    reader.take(">i")  # correlation id
    reader.skip_tags()
    reader.take(">i")  # throttle time
    return reader


class _Reader:
    """Reads one field after the other; a size of -1 means null and yields nothing."""

    def __init__(self, frame: memoryview, *, variable_sizes: bool) -> None:
        self._frame = frame
        self._variable_sizes = variable_sizes
        self._at = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        try:
            values = struct.unpack_from(layout, self._frame, self._at)
        except struct.error:
            raise self._broken() from None
        self._at += struct.calcsize(layout)
        return values

    def size(self, layout: str) -> int:
        """Read a length or a count; ``layout`` is for the versions that have it in a fixed size."""
        size: int = self._unsigned() - 1 if self._variable_sizes else self.take(layout)[0]
        return size

    def bytes(self, length: int) -> memoryview:
        start = self._at
        self._at += max(0, length)
        if length < -1 or self._at > len(self._frame):
            raise self._broken()
        return self._frame[start : self._at]

    def string(self) -> str:
        try:
            return str(self.bytes(self.size(">h")), "utf-8")
        except UnicodeDecodeError:
            raise self._broken() from None

    def skip_tags(self) -> None:
        """Skip the optional fields of versions with variable sizes (KIP-482)."""
        if self._variable_sizes:
            for _ in range(self._unsigned()):
                self._unsigned()
                self.bytes(self._unsigned())

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, LARGEST_SHIFT + 1, 7):
            byte: int = self.take("B")[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self._broken()

    def _broken(self) -> CorruptDataError:
        return CorruptDataError(f"a fetch response of {len(self._frame)} bytes is broken at byte {self._at}")
