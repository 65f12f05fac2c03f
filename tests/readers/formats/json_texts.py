"""Texts of JSON lines, and functions that read them."""

from __future__ import annotations

import json

import pyarrow as pa

from tests.support.objects.lab import Memory, read_all
from tidegate.readers.formats.bad_records import FAIL, ChunkRecords
from tidegate.readers.formats.json import JsonFormat

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


def timed(times: list[int | None], padding: list[int]) -> bytes:
    records = [{"at": {"ms": ms}, "x": "x" * more} for ms, more in zip(times, padding, strict=True)]
    return "".join(json.dumps(record) + "\n" for record in records).encode()
