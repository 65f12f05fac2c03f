"""Flat JSON lines that compiled loops read, compared with the reader that takes one line at a time."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.readers.formats.json.texts import records_of
from tidegate.errors import BadRecordError
from tidegate.readers.formats.json import lines as json_lines
from tidegate.readers.formats.json.columns import FlatLines
from tidegate.readers.formats.json.lines import JsonLines
from tidegate.readers.formats.line_ranges import LineBlock

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("b", pa.int8()),
        ("r", pa.float64()),
        ("s", pa.string()),
        ("f", pa.bool_()),
        ("né", pa.string()),
    ]
)
FLAT = FlatLines(SCHEMA, surplus=False)
CAREFUL = JsonLines(SCHEMA)


def carefully(data: bytes) -> pa.Table | None:
    """Return the rows as Python's json reads them, line by line; None: a line is malformed or does not fit."""
    try:
        return pa.Table.from_batches([CAREFUL._careful(records_of(SCHEMA), LineBlock(0, data))])
    except BadRecordError:
        return None


def same(one: pa.Table, other: pa.Table) -> bool:
    """Return whether tables are equal to the bit, also in the signs of zeros."""
    return one.combine_chunks().equals(other.combine_chunks()) and [
        math.copysign(1, value.as_py()) for value in one.column("r").drop_null()
    ] == [math.copysign(1, value.as_py()) for value in other.column("r").drop_null()]


digits = st.text("0123456789", min_size=1, max_size=24).map(lambda text: text.lstrip("0") or "0")
exponents = st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 320))
reals = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    digits,
    digits.map(".{}".format) | st.just(""),
    exponents | st.just(""),
)
texts = st.text(max_size=8).flatmap(
    lambda text: st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False)])
)
VALUES = {
    "i": st.integers(-(2**63) + 1, 2**63 - 1).map(str) | st.just("-0"),
    "b": st.integers(-128, 127).map(str),
    "r": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(2**70), 2**70).map(str) | reals,
    "s": texts,
    "f": st.sampled_from(["true", "false"]),
    "né": texts,
    "x": texts | digits | st.sampled_from(["true", "null", "-1.5e+3"]),
}
blanks = st.sampled_from(["", "", "", " ", "\t", " \r"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    members = draw(st.fixed_dictionaries({}, optional={name: st.just("null") | kind for name, kind in VALUES.items()}))
    names = draw(st.permutations(list(members)))
    written = [f'{draw(blanks)}"{name}"{draw(blanks)}:{draw(blanks)}{members[name]}{draw(blanks)}' for name in names]
    return draw(blanks) + "{" + (",".join(written) or draw(blanks)) + "}" + draw(blanks)


@settings(max_examples=150)
@given(st.lists(lines() | blanks, max_size=6))
def test_flat_lines_have_the_values_that_one_line_at_a_time_has(written: list[str]) -> None:
    data = "".join(line + "\n" for line in written).encode()
    expected, table = carefully(data), FLAT.table(data)
    if expected is None:  # such as an exponent that is too long
        assert table is None
        return
    assert table is not None
    table.validate(full=True)
    assert same(table, expected)


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
def test_of_any_text_it_reads_what_one_line_at_a_time_does_or_nothing(fragments: list[str]) -> None:
    data = "".join(fragments).encode() + b"\n"
    table = FLAT.table(data)
    if table is not None:
        table.validate(full=True)
        expected = carefully(data)
        assert expected is not None
        assert same(table, expected)


@pytest.mark.parametrize(
    "line",
    [
        '{"i":1,"i":2}',
        '{"i":1}{"i":2}',
        '{"i":\n1}',
        '[{"i":1}]',
        '{"x":[1]}',
        '{"x":{}}',
        '{"\\u0069":1}',
        '{"i":1.0}',
        '{"i":"1"}',
        '{"s":1}',
        '{"b":128}',
        '{"i":9223372036854775808}',
        '{"f":0}',
        '{"r":NaN}',
        '{"i":01}',
        '{"r":1.}',
        '{"r":.5}',
        '{"r":+1}',
        '{"r":1e}',
        '{"s":"\\x"}',
        '{"s":"\\ud83d"}',
        '{"s":"\t"}',
        "{'i':1}",
        '{"i":1,}',
        '{,"i":1}',
        '{"i" 1}',
        '{"i":}',
        '{"i"}',
        '{"i":1',
        '{"s":"',
        '{"f":tru}',
        '{"f":trueish}',
        "{",
        "null",
        "1",
        '"',
    ],
)
def test_odd_lines_are_left_to_others(line: str) -> None:
    assert FLAT.table(f'{{"i":1}}\n{line}\n'.encode()) is None


@pytest.mark.parametrize("digits", [10**18 - 1, 1_767_268_800_000_000_000, 2**63 - 1])
def test_all_integers_of_64_bits_are_read_but_the_least(digits: int) -> None:
    lines = f'{{"i":{digits}}}\n{{"i":-{digits}}}\n'.encode()
    table = FLAT.table(lines)
    assert table is not None
    assert table.column("i").to_pylist() == [digits, -digits]


@pytest.mark.parametrize("digits", [2**63, 2**63 + 1, 10**19 - 1, 10**19, 2**64, 2**64 + 1])
def test_integers_beyond_64_bits_are_left_to_others(digits: int) -> None:
    for sign in ("", "-"):
        assert FLAT.table(f'{{"i":{sign}{digits}}}\n'.encode()) is None


def test_names_that_are_no_columns_are_left_to_others_where_they_are_asked_for() -> None:
    data = b'{"i":1,"x":2}\n'
    assert FLAT.table(data) is not None
    assert FlatLines(SCHEMA, surplus=True).table(data) is None
    assert FlatLines(SCHEMA, surplus=True).table(b'{"i":1}\n') is not None


def test_lines_of_more_names_than_are_remembered_are_read() -> None:
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(1500)])
    rows = [{f"c{number}": number * sign for number in range(1500)} for sign in (1, -1)]
    table = FlatLines(wide, surplus=True).table("".join(json.dumps(row) + "\n" for row in rows).encode())
    assert table is not None
    assert table.to_pylist() == rows


@pytest.mark.parametrize(
    "schema", [pa.schema([]), pa.schema([("a", pa.list_(pa.int64()))]), pa.schema([("a", pa.float32())])]
)
def test_other_schemas_are_not_taken(schema: pa.Schema) -> None:
    assert not FlatLines.takes(schema)
    assert FlatLines.takes(SCHEMA)


def test_large_blocks_are_read_by_it_and_one_odd_line_changes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, odd = '{"i":%d,"s":"text"}\n', '{"i":%d,"s":"text","x":[1]}\n'
    read = FlatLines.table
    monkeypatch.setattr(FlatLines, "table", lambda self, data: tables.append(read(self, data)) or tables[-1])
    for last, flat in ((plain, True), (odd, False)):
        tables: list[pa.Table | None] = []
        data = "".join((last if number == 99_999 else plain) % number for number in range(100_000)).encode()
        assert len(data) > json_lines._LARGE_BYTES
        (batch,) = JsonLines(SCHEMA).batches(records_of(SCHEMA), LineBlock(0, data))
        assert [table is not None for table in tables] == [flat]
        assert batch.column("i").to_pylist() == [*range(100_000)]
        assert set(batch.column("s").to_pylist()) == {"text"}
