"""Files of each format for tests, and texts of JSON."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tests.support.objects.lab import Memory, read_all
from tidegate.readers.decompression import DEFAULT_MOST_BYTES
from tidegate.readers.formats.avro import opened_avro
from tidegate.readers.formats.bad_records import FAIL, ChunkRecords
from tidegate.readers.formats.json import JsonFormat
from tidegate.readers.formats.orc import opened_orc
from tidegate.readers.formats.parquet import opened_parquet
from tidegate.readers.formats.typed import TypedFormat
from tidegate.readers.objects.values import Bucket

CODECS = ["null", "deflate", "snappy", "bzip2", "xz"]  # fastavro writes no zstandard here; tests read that from Spark
MARKER = bytes(range(16))
SPARKS_AVRO = "org.apache.spark.sql.avro.AvroFileFormat"
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
ORC_CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]


def parquet(table: pa.Table, group_rows: int | None = None, **options: Any) -> bytes:
    """Return a file, in groups of ``group_rows`` rows."""
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=group_rows, **options)
    return stream.getvalue()


def orc_file(table: pa.Table, stripe_rows: int | None = None, **options: Any) -> bytes:
    """Return a file; stripe_rows: the size of the writer's batches, each of which is a stripe."""
    stream = io.BytesIO()
    if stripe_rows is not None:
        options |= {"stripe_size": 1, "batch_size": stripe_rows}
    orc.write_table(table, stream, **options)
    return stream.getvalue()


def parquet_format(store: Bucket, *given: Any, **fields: Any) -> TypedFormat:
    return TypedFormat(store, opened_parquet, "Parquet", *given, **fields)


def orc_format(store: Bucket, *given: Any, **fields: Any) -> TypedFormat:
    return TypedFormat(store, opened_orc, "ORC", *given, **fields)


def avro_format(store: Bucket, *given: Any, most_bytes: int = DEFAULT_MOST_BYTES, **fields: Any) -> TypedFormat:
    return TypedFormat(store, partial(opened_avro, most_bytes=most_bytes), "Avro", *given, **fields)


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


INNER = pa.struct([("x", pa.string()), ("y", pa.list_(pa.struct([("z", pa.int64())])))])
SCHEMA = pa.schema(
    [
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("many", pa.list_(pa.int64())),
        ("inner", INNER),
    ]
)


def records_of(schema: pa.Schema) -> ChunkRecords:
    return ChunkRecords(FAIL, "a/b.json", schema)


def read_text(content: bytes, schema: pa.Schema) -> list[dict]:
    memory = Memory(content)
    return read_all(JsonFormat(memory), memory.object, schema)


BAD = [
    b"null",
    b"true",
    b"1",
    b'"x"',
    b"[]",
    b'[{"whole":1}]',
    b'{"whole":1} {"whole":2}',
    b'{"whole":1}{"whole":2}',
    b'{"whole":1} null',
    b'{"whole":1},',
    b'{"whole":1',
    b'"whole":1}',
    b'{"whole":1,}',
    b"{whole:1}",
    b"{'whole':1}",
    b'{"text":"\\\'x\\\'"}',
    b'{"real":+INF}',
    b'{"whole":01}',
    b'{"whole":1}\r{"whole":2}',
    b'{"surplus":"\xff"}',
    b'{"text":"a\tb"}',
    b'{"whole":1}\0',
    b'{"surplus":tru}',
    b'{"whole":' + b"[" * 100_000,
    b'{"many":[1,',
    b"\xef\xbb\xbf{}",
]


def timed_json(times: list[int | None], padding: list[int]) -> bytes:
    records = [{"at": {"ms": ms}, "x": "x" * more} for ms, more in zip(times, padding, strict=True)]
    return "".join(json.dumps(record) + "\n" for record in records).encode()
