"""Text, compared with bytes.splitlines and bytes.split."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.objects.lab import Memory, read_all
from tidegate.errors import OptionError
from tidegate.readers.formats.text import format as text_format
from tidegate.readers.formats.text.format import TextFormat

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
