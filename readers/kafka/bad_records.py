"""The places for bad records of Kafka: files, or a topic (Kafka Connect: dead letter queue)."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.errors import ConnectorError
from tidegate.kafka_private import DefaultRecordBatchBuilder
from tidegate.readers.bad_records.files import BadRecordFiles, digest_of
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.pool import idle_clients

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow as pa

    from tidegate.alignment.splits import SplitRange
    from tidegate.readers.kafka.config import KafkaConnectionConfig

__all__ = ["ERROR_HEADERS", "BadRecordFile", "BadRecordPlace", "BadRecordTopic", "BadRecords", "SupportsFiles"]

ERROR_HEADERS = "__tidegate.errors."
"""The prefix of the headers that a record gets in the topic, like ``__connect.errors.`` in Kafka Connect."""

_BATCH_BYTES = 512 << 10  # half of what a broker accepts by default

# A file's name has at most 255 bytes, so it contains only the start of a topic.  The digest distinguishes topics.
_LONGEST_TOPIC = 150


class BadRecords(Protocol):
    """Takes the bad records of one range to their place."""

    def add(self, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        """Write records, now or at ``flush``, each with its reason as a clause after "the record".

        rows: with the columns of Spark's Kafka source, ``headers`` included.

        Raises ConnectorError, OptionError or DeadlineError if they cannot be written.
        """

    def flush(self) -> None:
        """Write the records that are not written yet; raises the errors of ``add``."""


class BadRecordPlace(Protocol):
    """A place for bad records; picklable."""

    def of_range(self, config: KafkaConnectionConfig, wanted: SplitRange, topic_id: UUID | None) -> BadRecords:
        """Return a writer for the bad records of a range; it opens nothing before the first record."""


class SupportsFiles(Protocol):
    """A folder or a bucket for bad records, such as BadRecordFolder; picklable."""

    def files(self, name: str) -> BadRecordFiles:
        """Return the files whose names begin with a prefix."""


@dataclass(frozen=True, slots=True)
class BadRecordFile:
    """Files of a folder, a file or more for each range.

    Each line has ``topic``, ``partition``, ``offset``, ``timestamp`` (ms), ``timestampType``, ``reason``, and the bytes
    in Base64: ``key``, ``value``, and the values in ``headers``.  A file is named after its range, the topic's id and
    ``identity``: a repeated task replaces its own files, and no others.

    identity: a digest of the options that decide which records are bad.
    """

    folder: SupportsFiles
    identity: str

    def of_range(self, config: KafkaConnectionConfig, wanted: SplitRange, topic_id: UUID | None) -> BadRecords:
        """Return the files of a range."""
        servers = sorted(server.strip() for server in config.bootstrap_servers.split(","))
        origin = ",".join(servers) if topic_id is None else str(topic_id)
        digest = digest_of([origin, wanted.split_id, wanted.start, wanted.end, self.identity])[:12]
        topic, partition = TopicPartition.of(wanted.split_id)
        name = f"{topic[:_LONGEST_TOPIC]}-{partition}-{wanted.start}-{wanted.end}-{digest}"
        return _InFiles(self.folder.files(name))


class _InFiles:
    def __init__(self, files: BadRecordFiles) -> None:
        self._files = files

    def add(self, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        for row, reason in zip(_rows(rows), reasons, strict=True):
            headers = [{"key": h["key"], "value": _text(h["value"])} for h in row["headers"] or ()]
            self._files.add(
                {
                    "topic": row["topic"],
                    "partition": row["partition"],
                    "offset": row["offset"],
                    "timestamp": row["timestamp"],
                    "timestampType": row["timestampType"],
                    "reason": f"the record {reason}",
                    "key": _text(row["key"]),
                    "value": _text(row["value"]),
                    "headers": headers,
                }
            )

    def flush(self) -> None:
        self._files.flush()


@dataclass(frozen=True, slots=True)
class BadRecordTopic:
    """A topic of the same cluster.

    A record keeps its key, value and headers, and gets headers that begin with ERROR_HEADERS: ``topic``, ``partition``,
    ``offset``, ``timestamp`` and ``message``.  Its timestamp is the time of writing, so that retention keeps it.  The
    records of one partition go to one partition.  A repeated task writes its records again.
    """

    topic: str

    def of_range(self, config: KafkaConnectionConfig, wanted: SplitRange, _: UUID | None) -> BadRecords:
        """Return a writer that appends the bad records of a range."""
        return _InTopic(self.topic, config, TopicPartition.of(wanted.split_id).partition)


class _InTopic:
    def __init__(self, topic: str, config: KafkaConnectionConfig, partition: int) -> None:
        self._topic, self._config, self._partition = topic, config, partition
        self._batch, self._number = _new_batch(), 0

    def add(self, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        for row, reason in zip(_rows(rows), reasons, strict=True):
            said = {name: row[name] for name in ("topic", "partition", "offset", "timestamp")}
            said["message"] = f"the record {reason}"
            added = [(f"{ERROR_HEADERS}{name}", str(value).encode()) for name, value in said.items()]
            headers = [*((header["key"], header["value"]) for header in row["headers"] or ()), *added]
            record = time.time_ns() // 1_000_000, row["key"], row["value"], headers
            if self._batch.append(self._number, *record) is None:  # it has no room
                self.flush()
                self._batch.append(self._number, *record)
            self._number += 1

    def flush(self) -> None:
        if not self._number:
            return
        # The reading client must not write: it would drop the answer to the fetch that is under way.
        with idle_clients.lend(self._config) as client:
            partitions = client.partitions([self._topic], expected=[self._topic]).get(self._topic)
            if not partitions:
                raise ConnectorError(f"badRecordsTopic is {self._topic!r}, but Kafka has no such topic; create it")
            place = TopicPartition(self._topic, partitions[self._partition % len(partitions)])
            client.produce(place, bytes(self._batch.build()))
        self._batch, self._number = _new_batch(), 0


def _new_batch() -> Any:
    """Return an empty batch of format 2, uncompressed and of no producer; its first record always has room."""
    return DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, _BATCH_BYTES)  # noqa: FBT003 - the order is kafka-python's


def _rows(rows: pa.RecordBatch) -> list[Mapping[str, Any]]:
    """Return rows with their timestamps in ms, which have a wider range than Python's datetimes."""
    place = rows.schema.get_field_index("timestamp")
    times_us = rows.column(place).view("int64").to_pylist()
    in_ms: list[Mapping[str, Any]] = [
        {**row, "timestamp": time_us // 1000}
        for row, time_us in zip(rows.drop_columns(["timestamp"]).to_pylist(), times_us, strict=True)
    ]
    return in_ms


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
