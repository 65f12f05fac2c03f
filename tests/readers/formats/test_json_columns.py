"""Objects of JSON that a compiled loop reads, compared with the way that reads one at a time."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.readers.formats.files import records_of
from tidegate.errors import BadRecordError
from tidegate.readers.formats import json_columns
from tidegate.readers.formats.json_columns import JsonColumns
from tidegate.readers.formats.json_lines import JsonLines
from tidegate.readers.formats.lines import LineBlock

INNER = pa.struct([("x", pa.int16()), ("deeper", pa.struct([("x", pa.string())])), ("none", pa.struct([]))])
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("tiny", pa.int8()),
        ("r", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(10, 3)),
        ("s", pa.string()),
        ("né", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("inner", INNER),
        ("l", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.string())),
        ("days", pa.map_(pa.string(), pa.list_(pa.date32()))),
        ("rows", pa.list_(pa.struct([("x", pa.int16()), ("m", pa.map_(pa.string(), pa.list_(pa.bool_())))]))),
    ]
)
LINES = JsonLines(SCHEMA)
blanks = st.sampled_from(["", "", "", " ", "\t", "\r", " \t "])
plain_texts = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cc", "Cs"]), max_size=4)


def object_of(pairs: dict[str, str], blank: str) -> str:
    inner = f"{blank},{blank}".join(f'{blank}"{name}"{blank}:{blank}{value}' for name, value in pairs.items())
    return f"{blank}{{{blank}{inner}{blank}}}{blank}"


def listed(values: list[str]) -> str:
    return f"[{','.join(values)}]"


def entries(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.dictionaries(plain_texts, values | st.just("null"), max_size=3)
    return pairs.map(lambda one: "{" + ",".join(f'"{key}":{value}' for key, value in one.items()) + "}")


row_texts = st.fixed_dictionaries(
    {},
    optional={
        "x": st.integers(-9, 9).map(str),
        "y": st.just("[{},[1]]"),
        "m": entries(st.lists(st.sampled_from(["true", "false", "null"]), max_size=2).map(listed)),
    },
).map(lambda pairs: object_of(pairs, ""))
fitting = {
    "i": st.integers(-(2**63), 2**63 - 1).map(str),
    "tiny": st.integers(-128, 127).map(str),
    "r": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(0, 9).map(str),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "d": st.decimals(-(10**7) + 1, 10**7 - 1, places=3).map(str) | st.integers(-9, 9).map(str),
    "s": plain_texts.map('"{}"'.format) | st.text(max_size=6).map(json.dumps),
    "né": plain_texts.map('"{}"'.format),
    "b": st.sampled_from(["true", "false"]),
    "t": st.just('"2024-01-01T00:00:00Z"'),
    "inner": st.integers(-9, 9).map('{{"deeper":{{"x":"y"}},"more":[1,{{"x":[]}}],"x":{}}}'.format),
    "l": st.lists(st.integers(-9, 9).map(str) | st.just("null"), max_size=3).map(listed),
    "m": entries(plain_texts.map('"{}"'.format) | st.text(max_size=6).map(json.dumps)),
    "days": entries(st.lists(st.sampled_from(['"2024-01-01"', "null"]), max_size=2).map(listed)),
    "rows": st.lists(row_texts | st.just("null"), max_size=3).map(listed),
    "other": st.just('{"text":"an \\"escape\\" \\u00e9","x":[[]],"y":[{},-0.5e+3,null]}'),
}
oddities = st.sampled_from(
    [
        *' \t\0\x1f"\\{}[]:,+-.0123456789eE/nulltrueabcfux_é',
        *[
            "",
            "",
            "",
            '"i":1,',
            '"x":',
            "NaN",
            "-Infinity",
            "\\n",
            "\\ud83d",
            "\\u12g4",
            "\\x",
            '""',
            "null",
            "[",
            "{}",
            "00",
        ],
        *[
            "e5",
            "1e400",
            "1e-400",
            "99999999999999999999",
            '"t":"2024-01-01"',
            '"inner":{},',
            '"other":0,',
            '"s":"",',
            "\ud83d",
        ],
    ]
)


rows_of_pairs = st.fixed_dictionaries({}, optional={name: kind | st.just("null") for name, kind in fitting.items()})


def one_by_one(data: bytes) -> pa.RecordBatch | None:
    """Return the rows; None: a line is malformed or does not fit."""
    try:
        return LINES._careful(records_of(SCHEMA), LineBlock(0, data))
    except BadRecordError:
        return None


def by_the_loop(made: JsonLines, *objects: bytes) -> pa.RecordBatch | None:
    ends = np.cumsum([*map(len, objects)], dtype=np.int32)
    return made._looped(b"".join(objects), ends)


@settings(max_examples=2000)
@given(rows_of_pairs, blanks, st.floats(0, 1), st.integers(0, 3), oddities)
@example({"f": "2.0089696636766425e-23"}, "", 0, 0, "")
@example({"r": "0e309"}, "", 0, 0, "")
@example({"i": "1"}, "", 0, 9, "null")
@example({"i": "1"}, "", 1, 0, '{"i":2}')
@example({"inner": '{"deeper":null,"none":{}}'}, "", 0, 0, "")
def test_of_objects_that_are_odd_at_some_place_it_reads_what_one_at_a_time_gives_or_nothing(pairs, blank, at, cut, odd):
    sound = object_of(pairs, blank)
    place = round(at * len(sound))
    text = (sound[:place] + odd + sound[place + cut :]).encode(errors="surrogatepass")
    for objects in ([text], [sound.encode(), text], [text, sound.encode()]):
        rows = by_the_loop(LINES, *objects)
        if rows is not None:
            rows.validate(full=True)
            slow = one_by_one(b"\n".join(objects))
            assert slow is not None
            assert repr(rows.to_pylist()) == repr(slow.to_pylist())


@given(st.lists(rows_of_pairs, min_size=1, max_size=5), blanks)
def test_it_reads_all_that_fits_also_with_escapes(written, blank):
    objects = [object_of(pairs, blank) for pairs in written]
    rows = by_the_loop(LINES, *(text.encode() for text in objects))
    assert rows is not None
    assert repr(rows.to_pylist()) == repr(one_by_one("\n".join(objects).encode()).to_pylist())


LEFT = [
    *["", "1", "{", '{"i":1', '{"inner":{"x":1}', '{"s":"a', '{"other":"\\', '{"other":"\\u123'],
    *['{"i"}', '{"i"::1}', '{"i":01}', '{"r":1.}', '{"b":tru}', '{"b":truex}', '{"other":[,1]}', '{"other":"\\x"}'],
    *['{"r":NaN}', '{"i":1,"i":2}', '{"i":"1"}', '{"d":1.2345}', '{"\\u0073":"a"}', '{"s":"\\ud83d\\ndc00"}'],
    f'{{"other":{"[" * 40}{"]" * 40}}}',
    *[
        '{"m":{"a":"1","a":"2"}}',
        '{"m":{"\\u0061":"1"}}',
        '{"m":{"a":1}}',
        '{"m":{"a"}}',
        '{"m":[]}',
        '{"m":{"a":"1",}}',
    ],
    *[
        '{"l":[1,"2"]}',
        '{"l":[1,]}',
        '{"l":[,]}',
        '{"l":[1 2]}',
        '{"l":{}}',
        '{"l":1}',
        '{"l":[1],"l":[]}',
        '{"l":[[1]]}',
    ],
    *['{"rows":[{"x":1,"x":2}]}', '{"rows":[1]}', '{"rows":[{"m":{"a":[],"a":[]}}]}', '{"rows":{"x":1}}'],
    json.dumps({"m": {str(number): "" for number in range(1001)}}),
]


@pytest.mark.parametrize("text", LEFT)
def test_what_it_is_not_sure_of_is_left_to_others(text):
    sound = b'{"i":1}'
    assert by_the_loop(LINES, sound, sound) is not None
    assert by_the_loop(LINES, sound, text.encode(), sound) is None
    assert by_the_loop(LINES, text.encode()) is None


def test_every_length_of_a_character_comes_out_of_its_escape():
    edges = "\0\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
    (row,) = by_the_loop(LINES, json.dumps({"s": edges}).encode()).to_pylist()
    assert row["s"] == edges


LONG = ["1." + 41 * "0", "-123456e-39", "0." + 45 * "0" + "1", "0e-10000000", "1e-10000000"]
LONG += ["7539638236841000000000000", "-33200000000000000000000e3", "332e23", "2.9e+22", "2.9e+19", "0e30"]
LONG += ["4", "7", "50000000000000000000.0000000000000000006", "17014118346046923174.0000000000000000006"]
LONG += ["50000000000000000000000000000000000000.6", "99999999999999999999.999999999999999999", "-0.5"]


@pytest.mark.parametrize("number", LONG)
@pytest.mark.parametrize("kind", [pa.decimal128(*of) for of in [(6, 2), (38, 18), (38, 38), (38, 0)]])
def test_decimals_that_arrow_reads_as_others_are_read_as_one_at_a_time_or_left(number, kind):
    for written, column in ((number, kind), (f"[{number}]", pa.list_(kind))):
        made, text = JsonLines(pa.schema([("d", column)])), f'{{"d":{written}}}'.encode()
        expected = made._one_by_one([(0, text)])[0]
        assert all(rows is None or rows.equals(expected) for rows in (by_the_loop(made, text), made._by_arrow(text, 1)))


@pytest.mark.parametrize(
    "number", ["0.018165926449000835", "1.0000000596046448", "7.006492321624086e-46", "1e-999999999"]
)
def test_a_float_is_the_one_next_to_the_number_however_it_is_read(number):
    made, text = JsonLines(pa.schema([("f", pa.float32())])), f'{{"f":{number}}}'.encode()
    expected = [pa.scalar(number).cast(pa.float32()).as_py()]
    assert made._one_by_one([(0, text)])[0]["f"].to_pylist() == expected
    assert [rows["f"].to_pylist() for rows in [by_the_loop(made, text)] if rows] in ([], [expected])


MANY = [
    *(f"{'x' * (place % 40)}{place}" for place in range(500)),
    "",
    *("a" * size for size in range(1, 99)),
    "né",
    "\x7f",
]


@pytest.mark.parametrize("wanted", [MANY, MANY[::2], MANY[:9], MANY[-9:], [*reversed(MANY)]])
def test_fields_of_wide_objects_are_found_in_any_order(wanted):
    inner = pa.struct([(name, pa.int64()) for name in wanted])
    made = JsonLines(pa.schema([*inner, ("inner", inner)]))
    orders = [MANY, MANY[::-1], MANY[1::3], sorted(MANY), [f"{name}?" for name in MANY], []]
    values = [{name: place for place, name in enumerate(order)} for order in orders]
    rows = by_the_loop(made, *(json.dumps(value | {"inner": value}, ensure_ascii=False).encode() for value in values))
    expected = [{name: value.get(name) for name in wanted} for value in values]
    assert rows.to_pylist() == [row | {"inner": row} for row in expected]


@pytest.mark.parametrize("kind", [pa.list_(pa.struct([])), pa.map_(pa.string(), pa.struct([]))])
@pytest.mark.parametrize("text", ["{}", '{"a":null}', '{"a":[]}', '{"a":{}}', '{"a":[{"b":1},null]}', '{"a":{"b":{}}}'])
def test_arrays_and_maps_of_structs_without_fields_are_read(kind, text):
    made = JsonLines(pa.schema([("a", kind)]))
    rows, odd = made.rows_of(pa.array([text.encode()], pa.binary()))
    slow, slow_odd = made._one_by_one([(0, text.encode())])
    assert (rows.to_pylist(), odd.keys()) == (slow.to_pylist(), slow_odd.keys())


def test_a_name_with_an_escape_that_nobody_wants_does_not_slow_down_all_objects(monkeypatch):
    made = JsonLines(pa.schema([("i", pa.int64())]))
    monkeypatch.setattr(made, "_convert", None)  # no object is read alone
    texts = pa.array([json.dumps({"größe": number, "i": number}).encode() for number in range(9)], pa.binary())
    assert made.rows_of(texts)[0]["i"].to_pylist() == [*range(9)]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.null(), pa.list_(pa.null())])
def test_other_types_are_left_to_others(kind):
    assert JsonColumns.of(pa.schema([("a", pa.struct([("b", kind)]))]), strict=False) is None


def test_with_surplus_to_rescue_objects_with_other_fields_are_left_to_others():
    strict = JsonLines(pa.schema([("a", pa.int64()), ("in", pa.struct([("b", pa.int64())]))]), surplus=True)
    assert by_the_loop(strict, b'{"a":1,"in":{"b":2}}').num_rows == 1
    assert by_the_loop(strict, b'{"a":1,"x":2}') is None
    assert by_the_loop(strict, b'{"a":1,"in":{"x":2}}') is None


def test_nothing_loads_numba_for_little_json():
    code = """
import sys
import pyarrow as pa
from tidegate.readers.formats import json_lines
made = json_lines.JsonLines(pa.schema([("a", pa.int64())]))
texts = pa.array([b'{"a":1}'] * 1000, pa.binary())
assert made.rows_of(texts)[0].num_rows == 1000 and "numba" not in sys.modules
json_lines._bytes_left = 7000
assert made.rows_of(texts)[0].num_rows == 1000 and "numba" not in sys.modules
assert made.rows_of(texts)[0].num_rows == 1000 and "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_maps_load_numba_sooner_since_nothing_else_reads_them_at_once():
    code = """
import sys
import pyarrow as pa
from tidegate.readers.formats import json_lines
made = json_lines.JsonLines(pa.schema([("a", pa.map_(pa.string(), pa.int64()))]))
texts = pa.array([b'{"a":{"b":1}}'] * 1000, pa.binary())
json_lines._bytes_left = 2 * 16 * 13_000  # twice: once more without blanks around
assert made.rows_of(texts)[0]["a"].to_pylist() == [[("b", 1)]] * 1000 and "numba" not in sys.modules
assert made.rows_of(texts)[0]["a"].to_pylist() == [[("b", 1)]] * 1000 and "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_takes_too_much_memory_at_once_is_read_in_parts(monkeypatch):
    made, texts = JsonLines(pa.schema([("l", pa.list_(pa.int64()))])), pa.array([b'{"l":[1,2,3]}'] * 9000, pa.binary())
    monkeypatch.setattr(json_columns, "_MOST_PLACES", 40_000)
    monkeypatch.setattr(made, "_convert", None)  # no object is read alone
    assert by_the_loop(made, *texts.to_pylist()) is None
    rows, odd = made.rows_of(texts)
    assert (rows["l"].to_pylist(), odd) == ([[1, 2, 3]] * 9000, {})


def test_nothing_loads_numba_where_memory_is_limited():
    code = """
import resource, sys
import pyarrow as pa
from tidegate.readers.formats import json_lines
json_lines._bytes_left = -1
made = json_lines.JsonLines(pa.schema([("a", pa.int64())]))
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
assert made.rows_of(pa.array([b'{"a":1}'] * 1000, pa.binary()))[0].num_rows == 1000 and "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
