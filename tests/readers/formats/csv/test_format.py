"""Records of CSV, compared with those of Python's csv module."""

from __future__ import annotations

import csv
import io
import itertools
import re
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.readers.formats.csv.texts import RFC, null_for_empty, read, read_kept, texts, values
from tidegate.errors import BadRecordError, CorruptDataError
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.csv import format as csv_format
from tidegate.readers.formats.csv import records as csv_records
from tidegate.readers.formats.csv.columns import GivenColumns
from tidegate.readers.formats.csv.options import CsvDialect
from tidegate.readers.formats.csv.quotes import CsvQuotes
from tidegate.readers.formats.csv.records import CsvRecords

RECORD_BY_RECORD = (CsvRecords, "_joined", lambda *_: b"\r\n")
"""Patches what is looked at first by a text with a carriage return outside of quotes, which no text may have."""

lines_within = st.text(st.sampled_from('ab,"\n ü'), max_size=6)


@st.composite
def written(draw, cell=values) -> tuple[bytes, int]:
    """Return a text of CSV as Python writes it, and its number of columns."""
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(cell, min_size=width, max_size=width), max_size=12))
    out = io.StringIO()
    quoting = draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    csv.writer(out, quoting=quoting, lineterminator=draw(st.sampled_from(["\n", "\r\n"]))).writerows(rows)
    text = out.getvalue()
    return (text if draw(st.booleans()) else text.rstrip("\r\n")).encode(), width


def as_python_reads(text: bytes, *, multi_line: bool) -> list[tuple]:
    """Return the rows that the csv module reads, without the lines that are blank to Spark."""
    lines = io.StringIO(text.decode(), newline="") if multi_line else text.decode().splitlines()
    return null_for_empty(row for row in csv.reader([*lines]) if row)


@settings(max_examples=300)
@given(written(), st.integers(1, 60), st.integers(1, 100))
@example((b'a,"b"\n"c""",d', 2), 6, 100)
def test_any_cut_gives_every_record_once_and_in_order(given_text, chunk_bytes, block_bytes):
    text, width = given_text
    kept = b"".join(line for line in text.splitlines(keepends=True) if line.strip())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
        rows = read(text, texts("abcd"[:width]), chunk_bytes=chunk_bytes, **RFC)
    assert rows == as_python_reads(kept, multi_line=False)


@settings(max_examples=300)
@given(written(lines_within), st.integers(1, 100), st.booleans())
def test_quoted_values_may_hold_line_ends(given_text, block_bytes, careful):
    text, width = given_text
    # The first line end decides what ends all lines.  Within quotes, a CRLF then becomes a line feed.
    plain = text.replace(b"\r\n", b"\n")
    expected = [row for row in as_python_reads(plain, multi_line=True) if row != (None,) or width > 1]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
        if careful:
            patched.setattr(*RECORD_BY_RECORD)
        rows = read(plain, texts("abcd"[:width]), multi_line=True, **RFC)
        assert [row for row in rows if row != (None,) or width > 1] == expected
        if b"\r\n" in text and plain.count(b"\n") == text.count(b"\r\n"):
            assert read(text, texts("abcd"[:width]), multi_line=True, **RFC) == rows


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_what_ends_the_first_line_ends_all_of_them(line_end, block_bytes, monkeypatch):
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", block_bytes)
    text = 'é,b\n"x\ny",2\n\n3,"4"\n5'.replace("\n", line_end).encode()
    rows = read_kept(text, texts("ab"), multi_line=True)
    assert rows == [("é", "b", None), ("x\ny", "2", None), ("3", "4", None), ("5", None, "5")]
    place = len(text) - 1
    with pytest.raises(BadRecordError, match=f"the record at byte {place} does not have 2 values"):
        read(text, texts("ab"), multi_line=True)
    # A line feed ends a line, too, if the first line end is another one.
    mixed = f'a,b{line_end}"c\n",d\ne,f'.encode()
    assert [row[1] for row in read(mixed, texts("ab"), multi_line=True)] == ["b", "d", "f"]


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("escape", ['"', "\\"])
def test_a_quote_within_a_value_without_quotes_opens_nothing(escape, careful, monkeypatch):
    if careful:
        monkeypatch.setattr(*RECORD_BY_RECORD)
    text = b'5" pipe,x\n6" pipe,y\nx""y,"p\nq"\nz"",5"\na\\\\"b,"c\nd"\n'
    for block_bytes in (3, 100):
        monkeypatch.setattr(csv_format, "BLOCK_BYTES", block_bytes)
        assert read(text, texts("ab"), multi_line=True, escape=escape) == [
            ('5" pipe', "x"), ('6" pipe', "y"), ('x""y', "p\nq"), ('z""', '5"'), ('a\\\\"b', "c\nd"),
        ]  # fmt: skip


def test_a_carriage_return_before_a_line_feed_belongs_to_the_line_end_outside_quotes():
    text = 'a,b\nc,"d\r\né"\r\n\r\ne\r\ng,\r\nh,i\r'.encode()
    assert read_kept(text, texts("ab"), multi_line=True) == [
        ("a", "b", None), ("c", "d\r\né", None), ("e", None, "e"), ("g", None, None), ("h", "i", None),
    ]  # fmt: skip
    with pytest.raises(
        CorruptDataError, match=r"^x.csv: the record at byte 4 has a carriage return in a value without"
    ):
        read_kept(b"a,b\nc,d\re\n", texts("ab"), multi_line=True)


@settings(max_examples=300)
@given(
    st.text(st.sampled_from('ab,"\n\r\\ #'), max_size=40),
    st.fixed_dictionaries(
        {
            "escape": st.sampled_from(['"', "\\"]),
            "null_value": st.sampled_from(["", "a"]),
            "quote": st.sampled_from(['"', ""]),
        }
    ),
)
@example('a"b,",a"b,b"', RFC)
@example('"a\\\\b"', {})
@example('a,""', {"null_value": "a"})
def test_reading_at_once_and_record_by_record_give_the_same(text, given_fields):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*RECORD_BY_RECORD)
        rows = read_kept(text.encode(), texts("abc"), **given_fields)
    for block_bytes in (csv_format.BLOCK_BYTES, 3):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
            assert read_kept(text.encode(), texts("abc"), **given_fields) == rows


QUOTED = {'"': '"(?:[^"]|"")*"', "\\": r'"(?:[^"\\]|\\[\s\S])*"'}


@pytest.mark.parametrize("escape", QUOTED)
def test_quotes_of_short_records_are_those_of_the_dialect_or_odd(escape):
    value = f'(?:{QUOTED[escape]}|[^,"\r][^,\r]*)?'
    rules, oracle = CsvQuotes(CsvDialect(escape=escape, multi_line=True)), re.compile(f"{value}(?:,{value})*")
    for length in range(6):
        for letters in itertools.product('a",\r\\', repeat=length):
            record = "".join(letters)
            assert rules.are_closed(f"{record}\n".encode()) == bool(oracle.fullmatch(record)), record


@given(st.lists(values, max_size=30), st.integers(1, 9), st.sampled_from(["\n", "\r\n", "\r"]))
def test_one_odd_record_among_many_changes_no_other(cells, odd, line_end):
    rows = [[cell, "x"] for cell in cells]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=line_end).writerows(rows)
    lines = out.getvalue().splitlines(keepends=True)
    text = "".join([*lines[:odd], f'"a" b,x{line_end}', f"1,2,3{line_end}", *lines[odd:]]).encode()
    assert read(text, texts("ab"), bad_records=BadRecordPolicy("DROPMALFORMED"), **RFC) == null_for_empty(rows)


@given(st.sets(st.integers(0, 29)), st.sampled_from([7, 1000]))
def test_odd_records_are_found_wherever_they_are(odd, careful):
    lines = ['"a" b,x\n' if row in odd else f'"{row}\\"",x\n' for row in range(30)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_records, "CAREFUL_RECORDS", careful)
        rows = read_kept("".join(lines).encode(), texts("ab"))
    assert [row[2] for row in rows] == [line[:-1] if row in odd else None for row, line in enumerate(lines)]
    assert [row[:2] for row in rows] == [(None, None) if row in odd else (f'{row}"', "x") for row in range(30)]


def test_what_is_no_character_is_replaced():
    text = "é,\n".encode() + b"\xff\x3f,b\n"
    assert read(text, texts("ab")) == [("é", None), ("\ufffd?", "b")]
    kept = read_kept(b"a\n" + text, texts("ab"))
    assert [row[2] for row in kept] == ["a", None, None]


@given(st.integers(1, 40), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n", "\n \n"]))
def test_a_header_names_the_columns_of_all_chunks(chunk_bytes, line_end, before):
    text = (before + "a,B,c\n1,2,3\n4,5,6\n").replace("\n", line_end).encode()
    assert read(text, texts("bxa"), chunk_bytes=chunk_bytes, header=True) == [
        ("2", None, "1"),
        ("5", None, "4"),
    ]
    by_position = {"header": True, "enforce_schema": True}
    assert read(text, texts("bxa"), chunk_bytes=chunk_bytes, **by_position) == [("1", "2", "3"), ("4", "5", "6")]


def test_a_header_that_names_none_of_the_columns_is_refused():
    with pytest.raises(CorruptDataError, match=r"^x.csv: its header has none of the columns; with enforceSchema"):
        read(b"a,b\n1,2\n", texts("xy"), header=True)
    assert read(b"a,b\n1,2\n", pa.schema([]), header=True) == [()]
    assert read(b"a,b\n", texts("a"), header=True) == read(b"", texts("a"), header=True) == []


def test_columns_without_names_go_by_their_number():
    schema = pa.schema([("_c2", pa.string()), ("_C0", pa.int64()), ("_c9", pa.string())])
    assert read(b"1,2,3\n4\n", schema) == [("3", 1, None), (None, 4, None)]
    assert read(b"1,2,3\n", texts("ab"), columns=GivenColumns(("a", "day", "c", "b"), "in/"), key="in/Day=1/x") == [
        ("1", "3")
    ]


def test_a_record_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(csv_records, "LONGEST_LINE", 2**20)
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", 2**18)
    with pytest.raises(CorruptDataError, match=r"^x.csv: the record at byte 2 is longer than 1 MiB$"):
        read(b'a\n"' + b"x\n" * 2**20, texts("a"), multi_line=True)


@pytest.mark.parametrize(("body", "escape"), [(b"a", "\\"), (b",", "\\"), (b'a\\"', "\\"), (b'a""', '"')])
@pytest.mark.parametrize("multi_line", [False, True])
def test_a_long_record_takes_a_multiple_of_its_length_whatever_its_quotes(body, escape, multi_line):
    text = b'"' + body * (2**22 // len(body)) + b'",x\n"b",y\n'
    tracemalloc.start()
    try:
        ((long, _), short) = read(text, texts("ab"), escape=escape, multi_line=multi_line)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(long), short) == (len(text.split(b'",x')[0]) - 1 - text.count(b'a\\"') - text.count(b'a""'), ("b", "y"))
    assert most < 20 * len(text)


def test_one_escaped_quote_among_short_values_takes_no_object_for_each():
    text = b'"a","b"\n' * 2**16 + b'"\\"","b"\n'
    tracemalloc.start()
    try:
        rules = CsvQuotes(CsvDialect())
        assert rules.doubled(text) == text[:-9] + b'"""","b"\n'
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 12 * len(text)
