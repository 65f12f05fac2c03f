"""Text, compared with bytes.splitlines, and objects that are rows."""

from __future__ import annotations

import gzip
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.objects.lab import Memory, chunk, read_all
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.formats import plain as binary_file_format
from tidegate.readers.formats import plain as text_format
from tidegate.readers.formats.plain import BINARY_FILE_SCHEMA, BinaryFileFormat, TextFormat
from tidegate.readers.objects.values import SMALL_BYTES, ChunkSurvey, TimeRange

SCHEMA = pa.schema([("value", pa.string())])


def read(content: bytes, key: str = "x.txt", schema: pa.Schema = SCHEMA, **fields) -> list[str]:
    memory = Memory(content, key)
    made = TextFormat(memory, **fields)
    assert made.infer([memory.object]) == SCHEMA
    return [row[schema.names[0]] for row in read_all(made, memory.object, schema)]


@settings(max_examples=300)
@given(st.text("ab ü\r\n", max_size=60).map(str.encode), st.integers(1, 100), st.integers(1, 70))
@example(b"\n\n\n", 1, 1)
def test_any_cut_gives_every_line_once_and_in_order(text, chunk_bytes, block_bytes):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_format, "BLOCK_BYTES", block_bytes)
        rows = read(text, chunk_bytes=chunk_bytes)
    assert rows == [line.decode() for line in text.splitlines()]


def test_what_is_no_character_is_replaced():
    assert read(b"\xff\xfc\n") == ["\ufffd\ufffd"]


def test_the_column_may_have_any_name_but_is_one_of_strings():
    assert read(b"a\nb\n", schema=pa.schema([("line", pa.string())])) == ["a", "b"]
    memory = Memory(b"a\nb\n")
    assert read_all(TextFormat(memory), memory.object, pa.schema([])) == [{}, {}]
    for schema in (pa.schema([*SCHEMA, ("x", pa.string())]), pa.schema([("value", pa.int64())])):
        with pytest.raises(OptionError, match=r"^text has one column, of strings, and not value: "):
            read(b"a\n", schema=schema)


def rows_of(memory: Memory, schema: pa.Schema = BINARY_FILE_SCHEMA) -> list[dict]:
    (survey,) = BinaryFileFormat(memory).survey(memory.object, None)
    (batch,) = BinaryFileFormat(memory).read(chunk(memory.object, survey.start, survey.end), schema)
    assert batch.schema.equals(schema)
    return batch.to_pylist()


@pytest.mark.parametrize("content", [b"\x00", gzip.compress(b"a", mtime=0), b"x" * (2 * SMALL_BYTES + 1)])
def test_an_object_is_a_row_of_what_it_holds(content):
    memory = Memory(content, "a/b.gz")
    memory.object = memory.object._replace(modified_ms=1_700_000_000_123)
    modified = datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)
    assert rows_of(memory) == [
        {"path": "a/b.gz", "modificationTime": modified, "length": len(content), "content": content}
    ]
    assert max(memory.requests) <= SMALL_BYTES


def test_content_is_fetched_only_for_its_column():
    memory = Memory(b"abc")
    schema = pa.schema([("LENGTH", pa.int64()), ("x", pa.string())])
    assert rows_of(memory, schema) == [{"LENGTH": 3, "x": None}]
    assert memory.requests == []
    assert rows_of(memory, pa.schema([("Content", pa.binary())])) == [{"Content": b"abc"}]


def test_an_object_that_no_row_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(binary_file_format, "LARGEST", 2)
    memory = Memory(b"abc", "x")
    with pytest.raises(CorruptDataError, match=r"^x: it is longer than 2 GiB, which no row can hold$"):
        rows_of(memory)
    assert memory.requests == []


def test_the_event_time_may_be_the_time_of_modification():
    memory = Memory(b"abc")
    memory.object = memory.object._replace(modified_ms=7)
    surveyed = BinaryFileFormat(memory).survey(memory.object, "ModificationTime")
    assert surveyed == [ChunkSurvey(0, 3, 1, TimeRange(7, 7))]
    assert BinaryFileFormat(memory).survey(Memory(b"").object, None) == []
