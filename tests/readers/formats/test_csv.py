"""CSV, compared with Python's csv module and with Spark's reader."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.readers.formats.contract import TO_CONTINUE
from tests.support.objects.lab import Memory, read_all
from tidegate.errors import BadRecordError, CorruptDataError, OptionError
from tidegate.readers.arrow.ddl import columns_of_ddl
from tidegate.readers.formats import csv as csv_format
from tidegate.readers.formats import csv_records
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.csv import CsvFormat, converter_of
from tidegate.readers.formats.options import CsvDialect
from tidegate.readers.objects.partitions import GivenColumns

RFC = {"escape": '"'}


def texts(names: str) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def read(
    text: bytes, schema: pa.Schema, key: str = "x.csv", chunk_bytes: int = 64 << 20, set_aside=None, **given
) -> list[tuple]:
    """Read all chunks of an object; settings that are no field of the format are fields of the dialect."""
    fields = {name: given.pop(name) for name in [*given] if name in CsvFormat.__dataclass_fields__}
    fields.setdefault("columns", GivenColumns(tuple(schema.names)))
    memory = Memory(text, key)
    made = CsvFormat(memory, dialect=CsvDialect(**given), chunk_bytes=chunk_bytes, **fields)
    return [tuple(row.values()) for row in read_all(made, memory.object, schema, set_aside)]


def read_kept(text: bytes, schema: pa.Schema, **given) -> list[tuple]:
    """Read an object whose bad records are kept; their texts are the last value of each row."""
    whole = pa.schema([*schema, ("_corrupt_record", pa.string())])
    return read(
        text, whole, bad_records=BadRecordPolicy("PERMISSIVE"), columns=GivenColumns(tuple(schema.names)), **given
    )


def null_for_empty(rows) -> list[tuple]:
    return [tuple(value or None for value in row) for row in rows]


values = st.text(st.sampled_from('ab,";\\ #\tüx|'), max_size=6)
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


@settings(max_examples=200)
@given(written(), st.integers(1, 60), st.integers(1, 100))
@example((b'a,"b"\n"c""",d', 2), 6, 100)
def test_any_cut_gives_every_record_once_and_in_order(given_text, chunk_bytes, block_bytes):
    text, width = given_text
    kept = b"".join(line for line in text.splitlines(keepends=True) if line.strip())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
        rows = read(text, texts("abcd"[:width]), chunk_bytes=chunk_bytes, **RFC)
    assert rows == as_python_reads(kept, multi_line=False)


@settings(max_examples=200)
@given(written(lines_within), st.integers(1, 100))
def test_quoted_values_may_hold_line_ends(given_text, block_bytes):
    text, width = given_text
    # The first line end decides what ends all lines.  Within quotes, a CRLF then becomes a line feed.
    plain = text.replace(b"\r\n", b"\n")
    expected = [row for row in as_python_reads(plain, multi_line=True) if row != (None,) or width > 1]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
        rows = read(plain, texts("abcd"[:width]), multi_line=True, **RFC)
        assert [row for row in rows if row != (None,) or width > 1] == expected
        if b"\r\n" in text and plain.count(b"\n") == text.count(b"\r\n"):
            assert read(text, texts("abcd"[:width]), multi_line=True, **RFC) == rows


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_any_line_end_ends_a_record_outside_quotes(line_end, block_bytes, monkeypatch):
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", block_bytes)
    text = 'é,b\n"x\ny",2\n\n3,"4"\n5'.replace("\n", line_end).encode()
    rows = read_kept(text, texts("ab"), multi_line=True)
    assert rows == [("é", "b", None), ("x\ny", "2", None), ("3", "4", None), ("5", None, "5")]
    place = len(text) - 1
    with pytest.raises(BadRecordError, match=f"the record at byte {place} does not have 2 values"):
        read(text, texts("ab"), multi_line=True)
    mixed = f'a,b{line_end}"c\n",d\re,f\n'.encode()
    assert [row[1] for row in read(mixed, texts("ab"), multi_line=True)] == ["b", "d", "f"]


@pytest.mark.parametrize("escape", ['"', "\\"])
def test_a_quote_within_a_value_without_quotes_opens_nothing(escape, monkeypatch):
    text = b'5" pipe,x\n6" pipe,y\nx""y,"p\nq"\nz"",5"\na\\\\"b,"c\nd"\n'
    for block_bytes in (3, 100):
        monkeypatch.setattr(csv_format, "BLOCK_BYTES", block_bytes)
        assert read(text, texts("ab"), multi_line=True, escape=escape) == [
            ('5" pipe', "x"), ('6" pipe', "y"), ('x""y', "p\nq"), ('z""', '5"'), ('a\\\\"b', "c\nd"),
        ]  # fmt: skip


@settings(max_examples=200)
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
@example('"a\\b"', {})
@example('a,""', {"null_value": "a"})
def test_reading_at_once_and_record_by_record_give_the_same(text, given_fields):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_records.CsvRecords, "_is_plain", lambda *_: False)
        rows = read_kept(text.encode(), texts("abc"), **given_fields)
    for block_bytes in (csv_format.BLOCK_BYTES, 3):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
            assert read_kept(text.encode(), texts("abc"), **given_fields) == rows


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


@settings(max_examples=200)
@given(st.text(st.sampled_from('a, "\n\r\\'), max_size=12), st.booleans(), st.booleans(), st.integers(1, 20))
def test_any_text_is_read_without_names_or_refused_in_a_sentence(text, header, multi_line, chunk_bytes):
    memory = Memory(text.encode(), "x.csv")
    dialect = CsvDialect(header=header, multi_line=multi_line)
    made = CsvFormat(memory, dialect=dialect, bad_records=BadRecordPolicy("PERMISSIVE"), chunk_bytes=chunk_bytes)
    schema = pa.schema([("_c0", pa.string()), ("_c7", pa.int64())])
    for look in (lambda: made.infer([memory.object]), lambda: read_all(made, memory.object, schema)):
        try:
            look()
        except (CorruptDataError, OptionError) as problem:  # noqa: PERF203 - both looks have to be tried
            assert str(problem).startswith(("x.csv: ", "no object of s3://data has a line"))  # noqa: PT017


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TINYINT", "128"),
        ("BIGINT", "٣"),
        ("DOUBLE", "secret"),
        ("DECIMAL(38,0)", "8e0x10"),
        ("TIMESTAMP_NTZ", "2020-01-01T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_value_that_does_not_fit_is_named_by_its_place_and_never_shown(name, text, line_end):
    schema = columns_of_ddl(f"`é` STRING, v {name}")
    content = f"é,{line_end} {line_end}b,{text}{line_end}".encode()
    sentence = re.escape(f" at byte {content.index(b'b,')} has no {name} in 'v'")
    for chunk_bytes in (1, 100):
        with pytest.raises(BadRecordError, match=f"^x.csv: the line{sentence}{TO_CONTINUE}$"):
            read(content, schema, chunk_bytes=chunk_bytes)
    with pytest.raises(BadRecordError, match=f"^x.csv: the record{sentence}{TO_CONTINUE}$"):
        read(content.replace(b" ", b","), schema, multi_line=True)


@pytest.mark.parametrize(
    ("kind", "text", "careful", "number"),
    [
        (pa.date32(), "0000-02-29", "2020-1", -719_469),
        (pa.timestamp("us"), "0000-02-29", "2020-1", -719_469 * 86_400_000_000),
        (pa.timestamp("us", "UTC"), "0000-02-29T00:00:01", "2020-1", -719_469 * 86_400_000_000 + 1_000_000),
        (pa.decimal128(9, 0), "90e-01701", "1,000", 0),
    ],
)
def test_a_value_is_the_same_beside_one_for_which_a_column_is_read_value_by_value(kind, text, careful, number):
    convert = converter_of("v", kind)
    for cells in ([text], [text, careful]):
        values, misfits = convert(pa.array(cells))
        assert misfits is None
        whole = values.cast(pa.int64()) if pa.types.is_decimal(kind) else values.view(f"int{kind.bit_width}")
        assert whole[0].as_py() == number


@pytest.mark.parametrize("number", ["7539638236841000000000000", "332e23", "-2.9e+22"])
def test_a_number_too_large_for_a_decimal_is_no_other_number(number):
    values, misfits = converter_of("v", pa.decimal128(38, 18))(pa.array([number]))
    assert (values.to_pylist(), misfits.tolist()) == ([None], [True])


def test_a_decimal_may_have_all_its_digits():
    values, misfits = converter_of("v", pa.decimal128(38, 0))(pa.array(["9" * 38, "1,000"]))
    assert (values[0].as_py(), misfits) == (10**38 - 1, None)


def test_a_type_that_csv_has_not_is_refused():
    for kind in (pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.time32("s"), pa.duration("us")):
        with pytest.raises(OptionError, match=r"^the column 'v' cannot be read from CSV as"):
            read(b"1\n", pa.schema([("v", kind)]))


LINES = [
    '"a\\b",f', 'a\\"b,g', "NA,", '"NA",""', "  a , b  ", ' "q" , "r"x', "#c,d", "only", "a,b,c", ",", '"",', "   ",
    "", "\\,\\", 'x,"y\tz"',
    "ü,\xa0", '"a,"," b "',
]  # fmt: skip
ESCAPED = ['"a\\"b",d', '"a\\\\",e', '"a\\\\b",k', '"\\"\\\\",\\\\']
DOUBLED = ['"a""b",c', '"""",""""""']
ODD = ['a"b,",x"y,z"', '"a"x,h', '"open,i', '"a" ,j', '"', '"a"b,"c"']
DIALECTS = [
    ({}, ESCAPED, DOUBLED),
    ({"escape": '"'}, DOUBLED, ESCAPED[:1]),
    ({"quote": ""}, [*DOUBLED, *ODD], []),
    ({"null_value": "NA"}, ESCAPED, DOUBLED),
]
VALUES = {
    "int": ["1", "+1", "-2147483648", "2147483648", " 1", "0x1", "1.0", "1e1", "-"],
    "bigint": ["9223372036854775807", "9223372036854775808", "01"],
    "double": ["1", " 1 ", "+.5", "5.", "1e400", "NaN", "Inf", "-Inf", "Infinity", "inf", "1d", "1_0", "nan"],
    "decimal(6,2)": ["1.005", "9999.994", "9999.995", "1e3", '"1,000.5"', "-0", " 1", "NaN"],
    "boolean": ["true", "FALSE", "1", "t"],
    "date": ["2020-01-31", "2020-1-3", "2020", "2020-02-30", "2020-01-01T99", "20200101", " 2020-01-01"],
    "timestamp": [
        "2020-01-31", "2020-01-01T10", "2020-1-1 1:2", "2020-01-01 10:00:00.1234567", "2020-01-01T10:00:00+01",
        "2020-01-01 10:00:00 Europe/Paris", "2020-01-01T24:00:00", "2020", "1", "2020-01-01T10:00:00Z",
    ],
    "binary": ["YQ==", "é"],
}  # fmt: skip


def test_records_and_values_are_what_sparks_own_reader_makes_of_them(spark, tmp_path):
    def plain(row) -> str:
        return repr(
            [bytes(value) if isinstance(value, bytearray) else value for value in row]
        )  # NaN does not equal NaN

    def theirs(text: str, schema: str, **options) -> list[str]:
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.csv"
        path.write_text(text, newline="")
        rows = spark.read.schema(f"{schema}, _corrupt_record string").options(**options).csv(str(path)).collect()
        return [plain(row) for row in rows]

    def ours(text: str, schema: pa.Schema, **options) -> list[str]:
        rows = read_kept(text.encode(), schema, **options)
        return [
            plain(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in row) for row in rows
        ]

    camel = lambda name: "".join(part.title() if at else part for at, part in enumerate(name.split("_")))  # noqa: E731
    for dialect, *more in DIALECTS:
        options = {camel(name): value for name, value in dialect.items()}
        for text in ("\n".join([*LINES, *more[0]]), 'a,NA\n"NA",'):
            assert ours(text, texts("ab"), **dialect) == theirs(text, "a string, b string", **options), dialect
    for text in ('a,"b\nc"\n\n"d\r\ne",""\n  \nf', '"a\r\nb",c\r\n\r\nd,"e\nf\r\n"'):
        assert ours(text, texts("ab"), multi_line=True) == theirs(text, "a string, b string", multiLine=True), text
    kinds = dict(zip(VALUES, [pa.int32(), pa.int64(), pa.float64(), pa.decimal128(6, 2), pa.bool_(), pa.date32(),
                              pa.timestamp("us", "UTC"), pa.binary()], strict=True))  # fmt: skip
    # All values are in one file: each is in a line and a column of its own.
    width = len(kinds)
    text = "".join(
        "," * at + value + "," * (width - 1 - at) + "\n" for at, v in enumerate(VALUES.values()) for value in v
    )
    names = "abcdefgh"[:width]
    spark_schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    assert ours(text, pa.schema([*zip(names, kinds.values(), strict=True)])) == theirs(text, spark_schema)


@pytest.mark.parametrize(
    ("dialect", "odd"), [(dialect, [*ODD, *odd]) for dialect, _, odd in DIALECTS if "quote" not in dialect]
)
def test_quotes_of_another_dialect_are_refused(dialect, odd):
    sentence = re.escape(
        " has quotes that are not of this dialect (quote and escape); format text and Spark's from_csv"
    )
    for line in odd:
        text = f"1,2\n{line}\n3,4\n".encode()
        rows = read_kept(text, texts("ab"), **dialect)
        assert rows == [("1", "2", None), (None, None, line), ("3", "4", None)], line
        with pytest.raises(BadRecordError, match=f"^x.csv: the line at byte 4{sentence}"):
            read(text, texts("ab"), **dialect)
        # Where the next record begins is not known then.
        with pytest.raises(CorruptDataError, match=f"^x.csv: the record at byte 4{sentence}"):
            read(text, texts("ab"), multi_line=True, bad_records=BadRecordPolicy("DROPMALFORMED"), **dialect)


BAD = b'1,a\n2\nx,b\n3,c,"d"\n4,e\n'
NUMBERED = pa.schema([("n", pa.int64()), ("s", pa.string())])


TWO_WANTED = f"does not have 2 values, but 1{TO_CONTINUE}"


@pytest.mark.parametrize("chunk_bytes", [1, 7, 100])
def test_bad_records_are_set_aside_with_their_place_and_reason(chunk_bytes):
    policy, notes = BadRecordPolicy(path="aside"), []
    rows = read(BAD, NUMBERED, bad_records=policy, chunk_bytes=chunk_bytes, set_aside=notes.append)
    assert rows == [(1, "a"), (4, "e")]
    assert sorted((note["position"], note["reason"]) for note in notes) == [
        (4, "the line does not have 2 values, but 1"),
        (6, "the line has no BIGINT in 'n'"),
        (10, "the line does not have 2 values, but 3"),
    ]


def test_a_bad_record_is_kept_as_it_stands_though_line_ends_shrink_as_much_as_letters_grow():
    content = b"\xff,\r\nx\r\nzzz\r\n"  # the replaced byte becomes three
    rows = read_kept(content, texts("ab"))
    assert rows == [("\ufffd", None, None), ("x", None, "x"), ("zzz", None, "zzz")]
    with pytest.raises(BadRecordError, match=f"^x.csv: the line at byte 4 {TWO_WANTED}$"):
        read(content, texts("ab"))


@pytest.mark.parametrize("block_bytes", [1, 100])
def test_a_byte_order_mark_within_the_text_is_a_part_of_a_value(block_bytes, monkeypatch):
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", block_bytes)
    content = "\ufeffa,b\n\ufeff1,2\n\ufeff3,4\n".encode()
    assert read(content, texts("ab"), header=True) == [("\ufeff1", "2"), ("\ufeff3", "4")]


def test_what_does_not_fit_is_rescued():
    rescues = BadRecordPolicy(rescued_column="rest")
    schema = pa.schema([*NUMBERED, ("rest", pa.string())])
    rows = read(b"n,s,more\n1,a,\nx,b,c\n3,d,e,f\n", schema, header=True, bad_records=rescues)
    assert [row[:2] for row in rows] == [(1, "a"), (None, "b"), (3, "d")]
    assert [row[2] and json.loads(row[2]) for row in rows] == [
        None,
        {"n": "x", "more": "c", "_file_path": "x.csv"},
        {"more": "e", "_c3": "f", "_file_path": "x.csv"},
    ]


def test_surplus_that_is_null_is_not_rescued():
    schema, rescues = pa.schema([("s", pa.string()), ("rest", pa.string())]), BadRecordPolicy(rescued_column="rest")
    rows = read(b"s,more\na,-,-\nb,-,c\n", schema, header=True, null_value="-", bad_records=rescues)
    assert [row[1] and json.loads(row[1]) for row in rows] == [None, {"_c2": "c", "_file_path": "x.csv"}]
