"""The columns of Spark's own Kafka source, as Arrow has them."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["HEADER_LIST", "arrow_schema"]

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


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """Return the columns as PySpark expects them from a reader."""
    return pa.schema([*_COLUMNS, pa.field("headers", HEADER_LIST)] if include_headers else _COLUMNS)
