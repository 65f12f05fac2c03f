"""Text, compared with bytes.splitlines and bytes.split."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.objects.memory import COMPRESSED, Memory, read_all
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.formats.text import format as text_format
from tidegate.readers.formats.text.format import TextFormat
from tidegate.readers.objects.values import ChunkSurvey

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


@pytest.mark.parametrize("suffix", ["", *COMPRESSED])
def test_an_object_may_be_one_row(suffix, monkeypatch):
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 100)
    content = COMPRESSED.get(suffix, bytes)("a\r\n\nü".encode() * 100)
    assert read(content, f"x{suffix}", wholetext=True, chunk_bytes=10) == ["a\r\n\nü" * 100]
    memory = Memory(content)
    surveyed = TextFormat(memory, wholetext=True).survey(memory.object, None)
    assert surveyed == [ChunkSurvey(0, len(content), 1, None)]
    assert read(b"", wholetext=True) == read(b"") == []


def test_an_object_that_no_row_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(text_format, "LONGEST_TEXT", 10)
    assert read(b"x" * 10, wholetext=True) == ["x" * 10]
    with pytest.raises(CorruptDataError, match=r"^x\.txt: it is longer than 2 GiB, which no row can hold$"):
        read(b"x" * 11, wholetext=True)


def test_text_is_decoded_and_what_is_no_character_is_replaced():
    assert read(b"\xff\xfc\n") == ["\ufffd\ufffd"]
    assert read("\xff\xfc\n".encode("latin-1"), encoding="iso8859-1") == ["\xff\xfc"]


def test_the_column_may_have_any_name_but_is_one_of_strings():
    assert read(b"a\nb\n", schema=pa.schema([("line", pa.string())])) == ["a", "b"]
    memory = Memory(b"a\nb\n")
    assert read_all(TextFormat(memory), memory.object, pa.schema([])) == [{}, {}]
    for schema in (pa.schema([*SCHEMA, ("x", pa.string())]), pa.schema([("value", pa.int64())])):
        with pytest.raises(OptionError, match=r"^text has one column, of strings, and not value: "):
            read(b"a\n", schema=schema)


def test_a_compressed_object_that_becomes_too_large_a_row_names_the_option():
    content = gzip.compress(b"x" * 1_000_000)
    assert len(read(content, "x.gz", wholetext=True, most_bytes=1_000_000)[0]) == 1_000_000
    sentence = "^x.gz takes more than 999999 bytes decompressed; if it is sound, raise maxDecompressedBytes$"
    with pytest.raises(CorruptDataError, match=sentence):
        read(content, "x.gz", wholetext=True, most_bytes=999_999)
    assert len(read(b"x" * 1_000_000, "x", wholetext=True, most_bytes=10)[0]) == 1_000_000
