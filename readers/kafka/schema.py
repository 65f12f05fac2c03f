"""The columns of Spark's own Kafka source as an Arrow schema."""

from __future__ import annotations

import pyarrow as pa

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
