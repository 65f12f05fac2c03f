"""The columns of Spark's own Kafka source as an Arrow schema, and bad records with them as lines of files."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from tidegate.alignment.splits import SplitRange
from tidegate.readers.bad_record_files import BadRecordFiles, digest_of
from tidegate.readers.event_time.assigners import RecordTimestamp
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition

if TYPE_CHECKING:
    from tidegate.readers.places.place import BadRecordFolder

EVENT_TIME = "event_time"
EVENT_TIME_FAULT = "event_time_fault"
MICROSECONDS = 1000  # in a millisecond

HEADER_LIST = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_COLUMNS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestampType", pa.int32()),
]


def arrow_schema(*, include_headers: bool, include_event_time: bool = False) -> pa.Schema:
    """Return the columns as PySpark expects them from a reader."""
    headers = [pa.field("headers", HEADER_LIST)] if include_headers else []
    event_time = [pa.field(EVENT_TIME, pa.timestamp("us", "UTC")), pa.field(EVENT_TIME_FAULT, pa.string())]
    return pa.schema([*_COLUMNS, *headers, *(event_time if include_event_time else ())])


# A file's name has at most 255 bytes, so it contains only the start of a topic.  The digest distinguishes topics.
_LONGEST_TOPIC = 150
_PLAIN = ["topic", "partition", "offset", "timestamp", "timestampType"]


@dataclass(frozen=True, slots=True)
class BadRecordFile:
    """Files of a folder, a file or more for each range.

    Each line has ``topic``, ``partition``, ``offset``, ``timestamp`` (ms), ``timestampType``, ``reason``, and the bytes
    in Base64: ``key``, ``value``, and the values in ``headers``.

    A file is named after its range, the topic's id and ``identity``: a repeated task replaces its own files, and no
    others.

    identity: a digest of the options that decide which records are bad.
    """

    folder: BadRecordFolder
    identity: str

    def of_range(self, config: KafkaConnectionConfig, wanted: SplitRange, topic_id: UUID | None) -> BadRecordFiles:
        """Return the files for the bad records of a range; nothing is opened before the first record."""
        servers = sorted(server.strip() for server in config.bootstrap_servers.split(","))
        origin = ",".join(servers) if topic_id is None else str(topic_id)
        digest = digest_of([origin, wanted.split_id, wanted.start, wanted.end, self.identity])[:12]
        topic, partition = TopicPartition.of(wanted.split_id)
        return self.folder.files(f"{topic[:_LONGEST_TOPIC]}-{partition}-{wanted.start}-{wanted.end}-{digest}")


def lines_of(rows: pa.RecordBatch, reasons: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the line of each record.

    rows: with the columns of Spark's Kafka source, ``headers`` included.
    reasons: a sentence for each.
    """
    # Times in ms have a wider range than Python's datetimes.
    rows = rows.set_column(rows.schema.get_field_index("timestamp"), "timestamp", RecordTimestamp()(rows))
    for row, reason in zip(rows.to_pylist(), reasons, strict=True):
        headers = [{"key": h["key"], "value": _text(h["value"])} for h in row["headers"] or ()]
        texts = {"key": _text(row["key"]), "value": _text(row["value"]), "headers": headers}
        yield {**{name: row[name] for name in _PLAIN}, "reason": reason, **texts}


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
