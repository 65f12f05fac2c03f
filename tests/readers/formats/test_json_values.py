"""Values of JSON, compared with Spark's reader."""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.readers.formats.contract import TO_CONTINUE
from tests.readers.formats.files import INNER, read_text, records_of
from tidegate.errors import BadRecordError, OptionError
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.formats import json_lines as lines
from tidegate.readers.formats.json_lines import JsonLines
from tidegate.readers.formats.lines import LineBlock


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (pa.int64(), "1" * 5000),
        (pa.int8(), "128"),
        (INNER, '{"y":[{"z":"1"}]}'),
        (pa.list_(pa.decimal128(3, 1)), "[100]"),
        (pa.decimal128(10, 0), '"1,000"'),
        (pa.timestamp("us", "UTC"), "99999999999999"),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_column_and_place(kind, bad):
    schema = pa.schema([("c", kind)])
    with pytest.raises(BadRecordError) as raised:
        read_text(b'{"c":null}\n{"c":' + bad.encode() + b"}\n", schema)
    assert str(raised.value) == f"a/b.json: the line at byte 11 has no {ddl_of(kind)} in 'c'{TO_CONTINUE}"


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.float16()])
def test_a_type_that_json_has_not_is_refused(kind):
    with pytest.raises(OptionError) as raised:
        JsonLines(pa.schema([("a", pa.struct([("b", kind)]))]))
    assert str(raised.value) == f"the column 'a.b' cannot be read from JSON as {ddl_of(kind)}"


PLAIN = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("r", pa.float64()),
        ("d", pa.decimal128(20, 4)),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("day", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("l", pa.list_(pa.decimal128(20, 4))),
        ("x", pa.struct([("day", pa.date32()), ("b", pa.binary())])),
    ]
)
dates = st.dates(date(1, 1, 1), date(9999, 12, 31)).map(date.isoformat)
base64s = st.sampled_from(["", "YWI=", "YWJj"])
decimals = st.decimals(-(10**16) + 1, 10**16 - 1, places=4, allow_nan=False).map(lambda number: f"{number:f}")
digits = st.text("0123456789", min_size=1, max_size=24).map(lambda text: text.lstrip("0") or "0")
exponents = st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 320))
values = {
    "i": st.integers(-(2**31), 2**31 - 1).map(str),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "r": st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["", "-"]),
        digits,
        digits.map(".{}".format) | st.just(""),
        exponents | st.just(""),
    ),
    "d": decimals | decimals.map(json.dumps),
    "s": st.text(max_size=5).map(json.dumps),
    "b": base64s.map(json.dumps),
    "day": dates.map(json.dumps),
    "t": st.datetimes().map(datetime.isoformat).map(json.dumps),
    "ntz": st.datetimes().map(datetime.isoformat).map(json.dumps),
    "l": st.lists(decimals | st.just("null"), max_size=3).map(lambda items: f"[{','.join(items)}]"),
    "x": st.builds('{{"day":"{}","b":"{}"}}'.format, dates, base64s),
}


@given(
    st.lists(st.fixed_dictionaries({}, optional={n: st.just("null") | kind for n, kind in values.items()}), max_size=5)
)
@example([{"f": "2.0089696636766425e-23"}])
@example([{"r": "0e309"}])
def test_reading_at_once_and_line_by_line_give_the_same(written):
    text = "".join(
        "{" + ",".join(f'"{name}":{value}' for name, value in row.items()) + "}\n" for row in written
    ).encode()
    made = JsonLines(PLAIN)
    if text:
        quick = made._quick(text)
        if quick is None:  # a long fraction is read line by line if any column is a decimal, and so are huge numbers
            assert made._too_long.search(text) or re.search(rb"[eE][+]?[0-9]{3}", text)
            return
        quick.validate(full=True)
        assert quick.equals(made._careful(records_of(PLAIN), LineBlock(0, text)))


FLAT_SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("b", pa.int8()),
        ("r", pa.float64()),
        ("s", pa.string()),
        ("f", pa.bool_()),
        ("né", pa.string()),
    ]
)
FLAT = JsonLines(FLAT_SCHEMA)


def carefully(data):
    """Return the rows line by line; None: a line is malformed or does not fit."""
    try:
        return FLAT._careful(records_of(FLAT_SCHEMA), LineBlock(0, data))
    except BadRecordError:
        return None


def same(one, other):
    """Return whether tables are equal to the bit, also in the signs of zeros."""
    signs = [[math.copysign(1, value.as_py()) for value in table.column("r").drop_null()] for table in (one, other)]
    return one.equals(other) and signs[0] == signs[1]


FRAGMENTS = [
    *'{}[]:,"\\\n\r\t \0-+.0123456789eEuabcdDf',
    '"i":',
    '"s":"',
    '{"i":1}\n',
    '{"s":"',
    '"}\n',
    "null",
    "true",
    "false",
    "nul",
    "\\u00",
    "\\ud83d",
    "\\ude00",
    "\\n",
    '","',
    "1.5",
    "-0",
    "00",
    "1e5",
    "NaN",
    "Inf",
    '"f":',
    '"r":',
    "ü",
    "{}\n",
    "//",
]


@settings(max_examples=600)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12))
@example(['{"s":"', "\\ud83d", "\\ude00", '"}\n'])
@example(['{"s":"', "\\ud83d", '"}\n'])
@example(["{", '"r":', "-", "Inf", "}"])
@example(["{", '"x"', ":", "-", "NaN", "}"])
def test_of_any_text_it_reads_what_one_line_at_a_time_does_or_nothing(fragments):
    data = "".join(fragments).encode() + b"\n"
    ends = lines._line_ends(data)
    for quick in (FLAT._looped(data, ends), FLAT._by_arrow(data, lines._framed(data, ends))):
        if quick is not None:
            slow = carefully(data)
            assert slow is not None
            assert same(quick, slow)


def test_the_last_of_equal_keys_counts():
    schema = pa.schema([("a", pa.int64()), ("b", pa.struct([("c", pa.int64())]))])
    text = b'{"a":1,"a":2}\n{"a":1,"a":null,"x":1,"x":2}\n{"b":{"c":1,"c":3}}\n'
    assert read_text(text, schema) == [{"a": 2, "b": None}, {"a": None, "b": None}, {"a": None, "b": {"c": 3}}]


def test_a_required_column_and_required_fields_keep_the_schema():
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", inner)])
    assert read_text(b'{"a":1,"b":{"x":2}}\n', schema) == [{"a": 1, "b": {"x": 2}}]


FORMS = {
    "timestamp": [
        '"2020-01-02T03:04:05Z"', '"2020-01-02T03:04:05.123456789Z"', '"2020-01-02 03:04:05"', '"2020-01-02"',
        '"2020-01-02T03:04"', '"2020-1-2 3:4:5.6"', '"2020-01-02T03:04:05+01:30"', '"2020-01-02T03:04:05-0130"',
        '"2020-01-02T03:04:05+01"', '"2020-01-02T03:04:05 UTC"', '"2020-01-02T03:04:05 Europe/Berlin"',
        '"2020-01-02T03:04:05 UTC+1"', '" 2020-01-02T03:04:05 "', '"1900-01-01T00:00:00.0000019"', '"2020"',
        '"2020-02"', '"2020-02-30"', '"soon"', '""', "0", "1577934245", "-1", "true", "[]", '"2020-01-02T24:00:00Z"',
        '"2020-01-02T03:04:60Z"', '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', "null", "1.5",
        '"2020-01-01 00:00:00 Nowhere/Land"',
    ],
    "timestamp_ntz": [
        '"2020-01-02T03:04:05"', '"2020-01-02 03:04:05.123456789"', '"2020-01-02"', '"2020-01-02T03:04:05Z"', "0",
    ],
    "date": [
        '"2020-01-02"', '"2020-1-2"', '"2020-01-02T03:04"', '"2020-01-02 x"', '"2020"', '"2020-02"', '"2020-02-30"',
        '"x"', "null", "1",
    ],
    "decimal(6,2)": [
        "1", "1.5", "1.005", "1.015", "-1.015", '"1.5"', "1e2", "9999.99", "9999.995", "10000", '"x"', '"1e1"',
        "true", "NaN",
    ],
    "double": [
        "1", "0.1", "1e5", "123456789012345678901234567890", "1e999", '"NaN"', '"INF"', '"+INF"', '"-Infinity"',
        '"+Infinity"', "NaN", "-Infinity", '"1"',
    ],
    "bigint": ["1", "-0", "9223372036854775807", "9223372036854775808", "1.0", "1e2", '"1"', "true"],
    "tinyint": ["127", "-128"],
    "boolean": ["true", "false", "1", '"true"'],
    "string": [
        '"a"', "1", "1.50", "1e5", "true", "null", '{"a":[1,"b",null]}', "[]", '"\\u00e9\\n\\u0000"', '"\\ud800x"',
    ],
    "binary": [
        '"YWI="', '""', "1", '"?"', '"YWJj\\r\\nYWI="', '" YWI=\\n"', '"YWJj\\u0001YWI="', '"YW I="', '"YWI ="',
        '"YWI"', '"YWJj Y"', '"YWI=YWJj"', '"YQ= ="', '"YWI=x"', '"\\n"',
    ],
    "array<int>": ["[1,null]", "[]", "1", "null", '["1"]'],
    "map<string,double>": ['{"a":1,"b":null}', "{}", "[]"],
    "struct<a:int,b:array<struct<c:string>>>": ['{"a":1,"z":2}', "{}", '{"b":[{"c":"x"},null]}', "[]"],
}  # fmt: skip


@pytest.mark.parametrize("sql", FORMS)
def test_values_are_what_sparks_own_reader_makes_of_them(spark, tmp_path, sql):
    """Where Spark's reader gives a null, or a row of nulls, tidegate refuses the line."""
    texts = FORMS[sql]
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "x.json").write_text("".join(f'{{"n":{n},"c":{text}}}\n' for n, text in enumerate(texts)))
    schema = f"n int, c {sql}"
    frame = spark.read.schema(schema).json(str(folder)).orderBy("n")
    theirs = {row["n"]: row["c"] for row in frame.toArrow().to_pylist()}
    arrow = frame.limit(0).toArrow().schema
    for number, text in enumerate(texts):
        line = f'{{"n":{number},"c":{text}}}\n'.encode()
        try:
            mine = read_text(line, arrow)[0]["c"]
        except BadRecordError:
            mine = None
            assert text != "null"
        assert repr(mine) == repr(theirs.get(number)), text
