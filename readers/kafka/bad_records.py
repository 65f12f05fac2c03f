"""The files for bad records of Kafka."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from tidegate.alignment.splits import SplitRange
from tidegate.readers.bad_record_files import BadRecordFiles, digest_of
from tidegate.readers.event_time.assigners import RecordTimestamp
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition

if TYPE_CHECKING:
    from tidegate.readers.places.bad_records import BadRecordFolder


# A file's name has at most 255 bytes, so it contains only the start of a topic.  The digest distinguishes topics.
_LONGEST_TOPIC = 150


@dataclass(frozen=True, slots=True)
class BadRecordFile:
    """Files of a folder, a file or more for each range.

    Each line has ``topic``, ``partition``, ``offset``, ``timestamp`` (ms), ``timestampType``, ``reason``, and the bytes
    in Base64: ``key``, ``value``, and the values in ``headers``.  What an archive does not keep is null.

    A file is named after its range, the topic's id and ``identity``: a repeated task replaces its own files, and no
    others.

    identity: a digest of the options that decide which records are bad.
    """

    folder: BadRecordFolder
    identity: str

    def of_range(self, config: KafkaConnectionConfig, wanted: SplitRange, topic_id: UUID | None) -> BadRecords:
        """Return a writer for the bad records of a range; it opens nothing before the first record."""
        servers = sorted(server.strip() for server in config.bootstrap_servers.split(","))
        origin = ",".join(servers) if topic_id is None else str(topic_id)
        digest = digest_of([origin, wanted.split_id, wanted.start, wanted.end, self.identity])[:12]
        topic, partition = TopicPartition.of(wanted.split_id)
        name = f"{topic[:_LONGEST_TOPIC]}-{partition}-{wanted.start}-{wanted.end}-{digest}"
        return BadRecords(self.folder.files(name))


class BadRecords:
    """Takes the bad records of one range to its files."""

    def __init__(self, files: BadRecordFiles) -> None:
        self._files = files

    def add(self, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        """Write records, now or at ``flush``, each with its reason as a clause after "the record".

        rows: with the columns of Spark's Kafka source, ``headers`` included.

        Raises ConnectorError, OptionError or DeadlineError if they cannot be written.
        """
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
        """Write the records that are not written yet; raises the errors of ``add``."""
        self._files.flush()


def _rows(rows: pa.RecordBatch) -> list[Mapping[str, Any]]:
    """Return rows with their timestamps in ms, which have a wider range than Python's datetimes."""
    times_ms = RecordTimestamp()(rows)
    in_ms: list[Mapping[str, Any]] = rows.drop_columns(["timestamp"]).append_column("timestamp", times_ms).to_pylist()
    return in_ms


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
