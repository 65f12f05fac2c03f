"""Avro objects of given rows, as fastavro writes them."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone

import fastavro

CODECS = ["null", "deflate", "snappy", "bzip2", "xz"]  # fastavro writes no zstandard here; tests read that from Spark
MARKER = bytes(range(16))
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def avro(rows, codec="null", sync_interval=16_000, **types) -> bytes:
    """Return a file of rows with one field for each type."""
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    schema = {"type": "record", "name": "row", "namespace": "tests", "fields": fields}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, rows, codec, sync_interval, sync_marker=MARKER)
    return stream.getvalue()


def timed(count: int, step: int = 1, **options) -> bytes:
    return avro([{"n": n, "at": moment(n * step)} for n in range(count)], n="long", at=MILLIS, **options)


def moment(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}
