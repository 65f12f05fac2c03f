"""Texts of JSON lines, and functions that read them."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.objects.memory import BOM, Memory, chunk_of, read_all
from tidegate.readers.formats.bad_records import FAIL, ChunkRecords
from tidegate.readers.formats.json.format import JsonFormat

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    memory = Memory(b"")
    return FAIL.of_chunk(memory.object.key, chunk_of(memory.object, 0, 0), schema)


def read_text(content: bytes, schema: pa.Schema) -> list[dict]:
    memory = Memory(content)
    return read_all(JsonFormat(memory), memory.object, schema)


def expected(node, kind: pa.DataType):
    """Return a value of json.loads, reduced to the columns of a type."""
    if node is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: expected(node.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [expected(item, kind.value_type) for item in node]
    return float(node) if pa.types.is_floating(kind) else node


anything = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
int64s = st.integers(-(2**63), 2**63 - 1)
objects = st.fixed_dictionaries(
    {},
    optional={
        "whole": st.none() | int64s,
        "real": st.none() | st.floats(allow_nan=False) | st.integers(),
        "text": st.none() | st.text(max_size=20),
        "flag": st.none() | st.booleans(),
        "many": st.none() | st.lists(st.none() | int64s, max_size=4),
        "inner": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "x": st.none() | st.text(max_size=3),
                "y": st.lists(st.none() | st.fixed_dictionaries({}, optional={"z": int64s, "surplus": anything})),
            },
        ),
        "surplus": anything,
        "other": anything,
    },
)


@st.composite
def lines(draw) -> bytes:
    """Return a text of JSON lines, in any form that they may have."""
    ending = draw(st.sampled_from([b"\n", b"\r\n"]))
    blanks = draw(st.sampled_from([[b""], [b"", b"", b" ", b"\t"]]))
    text = draw(st.sampled_from([b"", BOM]))
    for record in draw(st.lists(objects, max_size=8)):
        for _ in range(draw(st.integers(0, 1)) if len(blanks) > 1 else 0):
            text += draw(st.sampled_from(blanks)) + ending
        written = json.dumps(
            record, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (" , ", " : ")]))
        )
        if record and draw(st.integers(0, 9)) == 0:
            written = '{"whole":7,' + written.removeprefix("{")
        text += draw(st.sampled_from(blanks)) + written.encode() + draw(st.sampled_from(blanks)) + ending
    return text if draw(st.booleans()) else text.removesuffix(ending)


def records(text: bytes) -> list[dict]:
    return [json.loads(line) for line in text.removeprefix(BOM).split(b"\n") if line.strip()]


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
