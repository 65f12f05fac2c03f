"""Flat JSON lines that are read at once, compared with the reader that takes one line at a time."""

from __future__ import annotations

import json
import math

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.readers.formats.json.texts import records_of
from tidegate.errors import BadRecordError
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
LINES = JsonLines(SCHEMA)


def carefully(data: bytes) -> pa.RecordBatch | None:
    """Return the rows as Python's json reads them, line by line; None: a line is malformed or does not fit."""
    try:
        return LINES._careful(records_of(SCHEMA), LineBlock(0, data))
    except BadRecordError:
        return None


def same(one: pa.RecordBatch, other: pa.RecordBatch | None) -> bool:
    """Return whether tables are equal to the bit, also in the signs of zeros."""
    return (
        other is not None
        and one.equals(other)
        and [math.copysign(1, value.as_py()) for value in one.column("r").drop_null()]
        == [math.copysign(1, value.as_py()) for value in other.column("r").drop_null()]
    )


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
@given(st.lists(lines(), max_size=6))
def test_what_is_read_at_once_has_the_values_that_one_line_at_a_time_has(written: list[str]) -> None:
    data = "".join(line + "\n" for line in written).encode()
    quick = LINES._quick(data)
    assert quick is None or same(quick, carefully(data))


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
    quick = LINES._quick(data)
    assert quick is None or same(quick, carefully(data))
