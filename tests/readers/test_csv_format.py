"""CSV against Python's csv module, and against Spark's own reader."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import pickle
import re
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.readers.test_json_format import BOM, COMPRESSED, Memory, chunk_of, read_all
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers import csv_format, csv_records, line_objects
from tidegate.readers.bad_records import FAIL, BadRecordPolicy
from tidegate.readers.csv_columns import GivenColumns
from tidegate.readers.csv_dialect import CsvDialect
from tidegate.readers.csv_format import CsvFormat
from tidegate.readers.csv_tokens import CsvTokenizer
from tidegate.readers.csv_values import converter_of
from tidegate.readers.objects import TimeRange
from tidegate.readers.row_groups import BATCH_BYTES

RFC = {"escape": '"'}
KEPT = BadRecordPolicy("PERMISSIVE")


def texts(names: str, kind: pa.DataType | None = None) -> pa.Schema:
    return pa.schema([(name, kind or pa.string()) for name in names])


def read(text: bytes, schema: pa.Schema, key: str = "x.csv", chunk_bytes: int = 64 << 20, **given) -> list[tuple]:
    """Read all chunks of an object; what is no field of the format is one of the dialect."""
    fields = {name: given.pop(name) for name in [*given] if name in CsvFormat.__slots__}
    fields.setdefault("columns", GivenColumns(tuple(schema.names)))
    memory = Memory(text, key)
    made = CsvFormat(memory, None, CsvDialect(**given), chunk_bytes=chunk_bytes, **fields)
    return [tuple(row.values()) for row in read_all(made, memory.object, schema)]


def null_for_empty(rows) -> list[tuple]:
    return [tuple(value or None for value in row) for row in rows]


# --- records and their values ---

values = st.text(st.sampled_from('ab,";\\ #\tüx|'), max_size=6)
lines_within = st.text(st.sampled_from('ab,"\n ü'), max_size=6)


@st.composite
def written(draw, cell=values) -> tuple[bytes, int]:
    """A text of CSV as Python writes it, and how many columns it has."""
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(cell, min_size=width, max_size=width), max_size=12))
    out = io.StringIO()
    quoting = draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    csv.writer(out, quoting=quoting, lineterminator=draw(st.sampled_from(["\n", "\r\n"]))).writerows(rows)
    text = out.getvalue()
    return (text if draw(st.booleans()) else text.rstrip("\r\n")).encode(), width


def as_python_reads(text: bytes, *, multi_line: bool) -> list[tuple]:
    """Return what the csv module reads; without the lines that are blank to Spark."""
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
    # What ends the first line is what ends all; then within quotes a CRLF is a line feed.
    plain = text.replace(b"\r\n", b"\n")
    expected = [row for row in as_python_reads(plain, multi_line=True) if row != (None,) or width > 1]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
        if careful:
            patched.setattr(CsvTokenizer, "is_plain", lambda *_: False)
        rows = read(plain, texts("abcd"[:width]), multi_line=True, **RFC)
        assert [row for row in rows if row != (None,) or width > 1] == expected
        if b"\r\n" in text and plain.count(b"\n") == text.count(b"\r\n"):
            assert read(text, texts("abcd"[:width]), multi_line=True, **RFC) == rows


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_what_ends_the_first_line_ends_all_of_them(line_end, block_bytes, monkeypatch):
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", block_bytes)
    text = 'é,b\n"x\ny",2\n\n3,"4"\n5'.replace("\n", line_end).encode()
    schema = pa.schema([*texts("ab"), ("_corrupt_record", pa.string())])
    columns = GivenColumns(("a", "b"))
    rows = read(text, schema, multi_line=True, bad_records=KEPT, columns=columns)
    assert rows == [("é", "b", None), ("x\ny", "2", None), ("3", "4", None), ("5", None, "5")]
    place = len(text) - 1
    with pytest.raises(CorruptDataError, match=f"the record at byte {place} does not have 2 values"):
        read(text, texts("ab"), multi_line=True)
    # A line feed within a file of another kind ends a line, too.
    mixed = f'a,b{line_end}"c\n",d\ne,f'.encode()
    assert [row[1] for row in read(mixed, texts("ab"), multi_line=True)] == ["b", "d", "f"]


@settings(max_examples=300)
@given(
    st.text(st.sampled_from('ab,"\n\r\\ #'), max_size=40),
    st.fixed_dictionaries(
        {
            "escape": st.sampled_from(['"', "\\"]),
            "null_value": st.sampled_from(["", "a"]),
            "comment": st.sampled_from(["", "#"]),
            "multi_line": st.booleans(),
            "ignore_leading_white_space": st.booleans(),
            "ignore_trailing_white_space": st.booleans(),
        }
    ),
)
@example('a"b,",a"b,b"', RFC)
@example('"a\\\\b"', {})
@example('a,""', {"null_value": "a"})
@example('#"\na', {"comment": "#", "multi_line": True})
@example('#"\na\n#"', {"comment": "#", "multi_line": True})
@example("a\nb\r\nb", {"multi_line": True})
def test_reading_at_once_and_record_by_record_give_the_same(text, given_fields):
    schema = pa.schema([*texts("abc"), ("_corrupt_record", pa.string())])
    columns = GivenColumns(("a", "b", "c"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CsvTokenizer, "is_plain", lambda *_: False)
        rows = read(text.encode(), schema, bad_records=KEPT, columns=columns, **given_fields)
    for block_bytes in (csv_format.BLOCK_BYTES, 3):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(csv_format, "BLOCK_BYTES", block_bytes)
            assert read(text.encode(), schema, bad_records=KEPT, columns=columns, **given_fields) == rows


@given(st.lists(values, max_size=30), st.integers(1, 9), st.sampled_from(["\n", "\r\n", "\r"]))
def test_one_odd_record_among_many_changes_no_other(cells, odd, line_end):
    rows = [[cell, "x"] for cell in cells]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=line_end).writerows(rows)
    lines = out.getvalue().splitlines(keepends=True)
    lines.insert(min(odd, len(lines)), f'"a" b,x{line_end}')
    rows.insert(min(odd, len(rows)), ['"a" b', "x"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_records, "CAREFUL_BYTES", 16)
        assert read("".join(lines).encode(), texts("ab"), **RFC) == null_for_empty(rows)


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("multi_line", [False, True])
def test_a_compressed_object_is_one_chunk(suffix, multi_line):
    content = COMPRESSED[suffix](BOM + b"n,s\n" + "1,ü\n2,\n".encode() * 1000)
    memory = Memory(content, f"a.csv{suffix}")
    made = CsvFormat(memory, None, CsvDialect(header=True, multi_line=multi_line), infer_schema=True, chunk_bytes=100)
    schema = made.infer([memory.object])
    assert schema == pa.schema([("n", pa.int64()), ("s", pa.string())])
    (survey,) = made.survey(memory.object, None)
    assert (survey.start, survey.end) == (0, len(content))
    assert [row["n"] for row in read_all(made, memory.object, schema)] == [1, 2] * 1000


@pytest.mark.parametrize("encoding", ["iso8859-1", "gbk", "utf-8"])
def test_text_is_decoded_and_what_is_no_character_is_replaced(encoding):
    text = "é,\n".encode(encoding) + b"\xff\x3f,b\n"
    given_rows = read(text, texts("ab"), encoding=encoding)
    assert given_rows == [("é", None), (b"\xff\x3f".decode(encoding, errors="replace"), "b")]
    kept = read(b"a\n" + text, pa.schema([*texts("ab"), ("_corrupt_record", pa.string())]), bad_records=KEPT,
                columns=GivenColumns(("a", "b")), encoding=encoding)  # fmt: skip
    assert [row[2] for row in kept] == ["a", None, None]


# --- the header ---


@given(st.integers(1, 40), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n", "#,,,\n \n"]))
def test_a_header_names_the_columns_of_all_chunks(chunk_bytes, line_end, before):
    text = (before + "a,B,c\n1,2,3\n4,5,6\n").replace("\n", line_end).encode()
    assert read(text, texts("bxa"), chunk_bytes=chunk_bytes, header=True, comment="#") == [
        ("2", None, "1"),
        ("5", None, "4"),
    ]
    by_position = {"header": True, "comment": "#", "enforce_schema": True}
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


# --- types ---


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int32(), "2147483648"),
        (pa.int8(), "128"),
        (pa.int64(), "0x1"),
        (pa.int64(), "1.0"),
        (pa.float64(), "inf"),
        (pa.float64(), "secret"),
        (pa.bool_(), "1"),
        (pa.decimal128(4, 2), "100"),
        (pa.decimal128(38, 0), "8e0x10"),
        (pa.date32(), "2020-02-30"),
        (pa.timestamp("us"), "2020-01-01T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_value_that_does_not_fit_is_named_by_its_place_and_never_shown(kind, text, line_end):
    schema = pa.schema([("é", pa.string()), ("v", kind)])
    content = f"é,{line_end} {line_end}b,{text}{line_end}".encode()
    place = content.index(b"b,")
    sentence = re.escape(f" at byte {place} has no {kind} in 'v'")
    for chunk_bytes in (1, 100):
        with pytest.raises(CorruptDataError, match=f"^x.csv: the line{sentence}$"):
            read(content, schema, chunk_bytes=chunk_bytes)
    with pytest.raises(CorruptDataError, match=f"^x.csv: the record{sentence}$"):
        read(content, schema, multi_line=True, ignore_leading_white_space=True)


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


def test_a_type_that_csv_has_not_is_refused():
    for kind in (pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.time32("s"), pa.duration("us")):
        with pytest.raises(OptionError, match=r"^the column 'v' cannot be read from CSV as"):
            read(b"1\n", pa.schema([("v", kind)]))


def test_a_null_where_the_schema_allows_none_is_refused():
    with pytest.raises(CorruptDataError, match="has 1 nulls, and the schema allows none"):
        read(b"1,\n", pa.schema([("a", pa.string()), pa.field("b", pa.string(), nullable=False)]))


LINES = [
    '"a""b",c', '"a\\"b",d', '"a\\\\",e', '"a\\\\b",k', '"a\\b",f', 'a\\"b,g', '"a"x,h', '"open,i', '"a" ,j',
    "NA,", '"NA",""', 'a"b,",x"y,z"',
    "  a , b  ", ' "q" , "r"', "#c,d", "only", "a,b,c", ",", '"",', "   ", "", "\\,\\", 'x,"y\tz"', "ü,\xa0", '"',
]  # fmt: skip
DIALECTS = [
    {},
    {"escape": '"'},
    {"quote": ""},
    {"null_value": "NA"},
    {"comment": "#", "ignore_leading_white_space": True},
    {"ignore_leading_white_space": True, "ignore_trailing_white_space": True},
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
        return repr([bytes(value) if isinstance(value, bytearray) else value for value in row])  # nan is not nan

    def theirs(text: str, schema: str, **options) -> list[str]:
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.csv"
        path.write_text(text, newline="")
        rows = spark.read.schema(f"{schema}, _corrupt_record string").options(**options).csv(str(path)).collect()
        return [plain(row) for row in rows]

    def ours(text: str, schema: pa.Schema, **options) -> list[str]:
        whole = pa.schema([*schema, ("_corrupt_record", pa.string())])
        rows = read(text.encode(), whole, bad_records=KEPT, columns=GivenColumns(tuple(schema.names)), **options)
        return [
            plain(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in row) for row in rows
        ]

    camel = lambda name: "".join(part.title() if at else part for at, part in enumerate(name.split("_")))  # noqa: E731
    for dialect in DIALECTS:
        options = {camel(name): str(value).lower() if value is True else value for name, value in dialect.items()}
        text = "\n".join(LINES)
        assert ours(text, texts("ab"), **dialect) == theirs(text, "a string, b string", **options), dialect
    kinds = dict(zip(VALUES, [pa.int32(), pa.int64(), pa.float64(), pa.decimal128(6, 2), pa.bool_(), pa.date32(),
                              pa.timestamp("us", "UTC"), pa.binary()], strict=True))  # fmt: skip
    # All in one file: a value a line, in its own column.
    width = len(kinds)
    text = "".join(
        "," * at + value + "," * (width - 1 - at) + "\n" for at, v in enumerate(VALUES.values()) for value in v
    )
    names = "abcdefgh"[:width]
    spark_schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    assert ours(text, pa.schema([*zip(names, kinds.values(), strict=True)])) == theirs(text, spark_schema)


# --- bad records ---

BAD = b'1,a\n2\nx,b\n3,c,"d"\n4,e\n'
NUMBERED = pa.schema([("n", pa.int64()), ("s", pa.string())])


def test_a_record_with_another_number_of_values_is_named_by_its_place():
    with pytest.raises(CorruptDataError, match=r"^x.csv: the line at byte 4 does not have 2 values, but 1$"):
        read(BAD, NUMBERED)
    with pytest.raises(CorruptDataError, match=r"^x.csv: the record at byte 4 does not have 2 values, but 1$"):
        read(BAD, NUMBERED, multi_line=True)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 100])
def test_bad_records_follow_their_policy(chunk_bytes, tmp_path):
    kept = pa.schema([*NUMBERED, ("_corrupt_record", pa.string())])
    columns = GivenColumns(("n", "s"))
    fields = {"chunk_bytes": chunk_bytes, "columns": columns}
    assert read(BAD, kept, bad_records=KEPT, **fields) == [
        (1, "a", None), (2, None, "2"), (None, "b", "x,b"), (3, "c", '3,c,"d"'), (4, "e", None),
    ]  # fmt: skip
    assert read(BAD, NUMBERED, bad_records=BadRecordPolicy("DROPMALFORMED"), **fields) == [(1, "a"), (4, "e")]
    aside = BadRecordPolicy(path=str(tmp_path))
    assert read(BAD, NUMBERED, bad_records=aside, **fields) == [(1, "a"), (4, "e")]
    notes = [json.loads(line) for file in sorted(tmp_path.iterdir()) for line in file.read_text().splitlines()]
    assert sorted((note["position"], note["reason"]) for note in notes) == [
        (4, "the line does not have 2 values, but 1"),
        (6, "the line has no int64 in 'n'"),
        (10, "the line does not have 2 values, but 3"),
    ]


def test_a_bad_record_is_kept_as_it_stands_though_line_ends_shrink_as_much_as_letters_grow():
    kept = pa.schema([*texts("ab"), ("_corrupt_record", pa.string())])
    columns = GivenColumns(("a", "b"))
    content = "\xe9,\xe9\r\nzzz\r\n".encode("latin-1")
    rows = read(content, kept, bad_records=KEPT, columns=columns, encoding="iso8859-1")
    assert rows == [("\xe9", "\xe9", None), ("zzz", None, "zzz")]
    with pytest.raises(CorruptDataError, match=r"^x.csv: the line at byte 5 does not have 2 values, but 1$"):
        read(content, texts("ab"), encoding="iso8859-1")


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


# --- surveys ---


def timed(count: int, step_ms: int = 1000) -> bytes:
    return b"at,x\n" + b"".join(b'%d,"%s"\n' % (1_700_000_000_000 + n * step_ms, b"y" * 30) for n in range(count))


def test_a_large_object_is_probed_at_both_ends_of_its_chunks():
    memory = Memory(timed(30_000))
    made = CsvFormat(memory, "ms", CsvDialect(header=True), chunk_bytes=500_000)
    surveys = made.survey(memory.object, "AT")
    assert len(surveys) == 3
    assert surveys[0].times.min_ms == 1_700_000_000_000
    assert surveys[-1].times.max_ms == 1_700_029_999_000
    for before, after in itertools.pairwise(surveys):
        assert after.times.min_ms - before.times.max_ms == 1000
    assert abs(sum(survey.rows for survey in surveys) - 30_000) < 300
    assert len(memory.requests) == 7  # two a chunk, and one for the header
    assert made.survey(memory.object, None)[0].times is None
    assert len(memory.requests) == 7


@pytest.mark.parametrize("multi_line", [False, True])
def test_what_is_looked_at_whole_is_known_exactly(multi_line, monkeypatch):
    if multi_line:
        monkeypatch.setattr(line_objects, "WHOLE_BYTES", 0)
    memory = Memory(b"x,at\n1,2023-11-14T22:13:20Z\n2,\n\n3,2023-11-14 22:13:21.5\n4,soon\n")
    made = CsvFormat(memory, None, CsvDialect(header=True, multi_line=multi_line))
    (survey,) = made.survey(memory.object, "at")
    assert (survey.rows, survey.rows_without_time) == (4, 2)
    assert survey.times == TimeRange(1_700_000_000_000, 1_700_000_001_500)
    (survey,) = made.survey(memory.object, "elsewhere")
    assert (survey.rows, survey.rows_without_time, survey.times) == (4, 4, None)


def test_the_column_of_times_is_found_without_a_header_too():
    memory = Memory(b"1,1700000000\n", "day=1/x")
    by_name = CsvFormat(memory, "s", columns=GivenColumns(("day", "x", "at")))
    by_number = CsvFormat(memory, "s")
    for made, column in [(by_name, "at"), (by_number, "_c1")]:
        assert made.survey(memory.object, column)[0].times == TimeRange(1_700_000_000_000, 1_700_000_000_000)
    with pytest.raises(OptionError, match="the event-time column '_c1' of day=1/x holds numbers, so eventTimeUnit"):
        CsvFormat(memory).survey(memory.object, "_c1")


# --- schema ---


def inferred(*contents: bytes, infer_schema: bool = True, **dialect) -> pa.Schema:
    memories = {f"{number}.csv": Memory(text, f"{number}.csv") for number, text in enumerate(contents)}

    class Several(Memory):
        bucket = "b"

        def fetch(self, found, start, end):
            return memories[found.key].fetch(found, start, end)

    made = CsvFormat(Several(b""), None, CsvDialect(**dialect), infer_schema=infer_schema)
    return made.infer([memory.object for memory in memories.values()])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "", "-2"], pa.int64()),
        (["1", "12345678901234567890"], pa.decimal128(20, 0)),
        (["1", "1" * 39], pa.float64()),
        (["1", "1.5", "NaN"], pa.float64()),
        (["2020-01-31", "2020-02-29"], pa.date32()),
        (["2020-01-31", "2020-01-31T00:00:00"], pa.string()),
        (["2020-01-31 10:00:00", "2020-01-31T00:00:00Z"], pa.timestamp("us", "UTC")),
        (["true", "FALSE"], pa.bool_()),
        (["true", "1"], pa.string()),
        (["", ""], pa.string()),
    ],
)
def test_types_are_inferred_in_sparks_order(cells, kind):
    content = "\n".join(f"{cell},x" for cell in cells).encode()
    assert inferred(content) == pa.schema([("_c0", kind), ("_c1", pa.string())])
    assert inferred(content, infer_schema=False) == pa.schema([("_c0", pa.string()), ("_c1", pa.string())])


def test_the_schema_is_that_of_all_samples_in_the_order_in_which_they_name_columns():
    schema = inferred(b"a,b\n1,x\n", b"\nB,c,,A\n2,3,4,1.5\n", b"a\n", header=True)
    assert schema == pa.schema([("a", pa.float64()), ("b", pa.string()), ("c", pa.int64()), ("_c2", pa.int64())])
    assert inferred(b"a,A,b\n1,2,3\n", header=True).names == ["a0", "A1", "b"]
    with pytest.raises(OptionError, match=r"^no object of s3://b has a line to infer columns from; give a schema$"):
        inferred(b"\n \n", b"")


def test_only_the_first_mebibyte_of_a_sample_is_looked_at():
    for suffix, compress in {"": bytes, **COMPRESSED}.items():
        memory = Memory(compress(b"1\n" * 600_000 + b"x\n" * 2_000_000), f"x{suffix}")
        assert CsvFormat(memory, infer_schema=True).infer([memory.object]).field(0).type == pa.int64()
        assert sum(memory.requests) <= 2**20 + 2**15


# --- bounds ---


def test_a_large_chunk_is_read_in_bounded_pieces():
    memory = Memory(timed(500_000))
    made = pickle.loads(pickle.dumps(CsvDialect(header=True)))  # noqa: S301 - its own
    rows, most, before = 0, 0, pa.total_allocated_bytes()
    schema = pa.schema([("at", pa.int64()), ("x", pa.string()), *((f"n{n}", pa.int64()) for n in range(20))])
    found = CsvFormat(memory, "ms", made).read(chunk_of(memory.object, 0, memory.object.size), schema)
    for batch in found:
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.nbytes <= BATCH_BYTES
    assert rows == 500_000
    assert memory.object.size > 2 * csv_format.BLOCK_BYTES
    assert max(memory.requests) <= csv_format.BLOCK_BYTES + 2 * 16 * 1024
    assert most < 8 * csv_format.BLOCK_BYTES


def test_a_record_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(csv_records, "LONGEST_LINE", 2**20)
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", 2**18)
    with pytest.raises(CorruptDataError, match=r"^x.csv: the record at byte 2 is longer than 1 MiB$"):
        read(b'a\n"' + b"x\n" * 2**20, texts("a"), multi_line=True)


def test_what_cannot_be_decompressed_is_refused():
    with pytest.raises(CorruptDataError, match=r"^x\.gz: cannot decompress it by gzip"):
        read(gzip.compress(b"a\n")[:-9] + b"x", texts("a"), key="x.gz", bad_records=FAIL)
