"""Columns of values: JSON beside json.loads of each value alone, texts, and what only one field of them is."""

import json
import math
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.servers.registry_server import avro, avro_value, header, registry_of
from tidegate.readers.formats import json_lines
from tidegate.readers.registry.columns import column_of_subject
from tidegate.readers.values.decoders import JsonValues, RegistryValues, StringValues

SCHEMA = pa.schema(
    [("id", pa.int64()), ("text", pa.string()), ("real", pa.float64()), ("in", pa.struct([("flag", pa.bool_())]))]
)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.none()
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "id": NUMBERS,
        "text": st.text(max_size=5) | st.none(),
        "real": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
        "in": st.fixed_dictionaries({}, optional={"flag": st.booleans() | st.none(), "x": NUMBERS}) | st.none(),
        "surplus": st.lists(NUMBERS, max_size=2),
    },
)
LAYOUTS = st.sampled_from(
    [
        json.dumps,
        lambda node: json.dumps(node, indent=1, ensure_ascii=False),
        lambda node: f" \r\n\t{json.dumps(node)}\n",
        lambda node: "\0\0\0\0\7" + json.dumps(node),
    ]
)
GOOD = st.builds(lambda node, layout: layout(node).encode(errors="replace"), OBJECTS, LAYOUTS)
BAD = st.sampled_from(
    [
        *(b"null", b"[{}]", b"{}{}", b"{} {}", b'{"id":1', b"1", b"\xff", b'{"in":{}', b'"a":1}', b"{},"),
        *(b'{"text":"\n"}', b'{"id":1}\n{"id":2}', b"\0\0\0\0\7x", b'{"id":tru}', b'{"id":1}\0'),
        *(b'{"real":Inf}', b'{"surplus":[-Inf ]}', b'{"surplus":-NaN}'),  # which pyarrow.json takes for numbers
    ]
)
NOTHING = st.sampled_from([None, b"", b" ", b"\n", b"\0\0\0\0\1 "])
DEEP = b'{"id":1,"surplus":%b%b}' % (b"[" * 300, b"]" * 300)
VALUES = st.lists(GOOD | BAD | NOTHING | st.just(DEEP), max_size=12)


def expected(value):
    """Return the row of a value by itself, and whether it is bad."""
    text = b"" if value is None else (value[5:] if value.startswith(b"\0") else value).strip(b" \t\r\n")
    if not text:
        return None, False
    none = {field.name: None for field in SCHEMA}
    try:
        node = json.loads(text.decode())
    except ValueError:
        node = None
    if not isinstance(node, dict):
        return {**none, "in": None}, True
    inner = node.get("in")
    return {
        **none,
        **{name: node.get(name) for name in ("id", "text", "real")},
        "in": None if inner is None else {"flag": inner.get("flag")},
    }, False


@given(VALUES, st.integers(0, 2), st.sampled_from([1, 40, 1 << 16]))
@example([b'{"id":1}', b'{"id":1', b'{"id":2}'] * 3, 0, 20)
@example([DEEP, b'{"id":1', b'{"id":2}', DEEP], 0, 1 << 16)
@example([b'{"id":1}', b'{"real":Inf}'], 0, 20)
@example([b'{"surplus":-NaN}'], 0, 20)
def test_each_value_is_read_as_if_it_came_alone(values, left_out, careful_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "_CAREFUL_BYTES", careful_bytes)
        array = pa.array(values, pa.binary()).slice(left_out)
        decoded, problems, rescued = JsonValues(SCHEMA).decode(array, None)
    rows = [expected(value) for value in values[left_out:]]
    assert decoded.to_pylist() == [row for row, _ in rows]
    assert sorted(problems) == [place for place, (_, is_bad) in enumerate(rows) if is_bad]
    assert all(reason.startswith("is not a JSON object") for reason in problems.values())
    assert not rescued


@given(VALUES)
def test_a_field_alone_has_the_values_that_it_has_among_others(values):
    array = pa.array(values, pa.binary())
    alone = JsonValues(SCHEMA).only(["in", "flag"])
    whole, one = JsonValues(SCHEMA).decode(array, None), alone.decode(array, None)
    assert one.values.to_pylist() == [None if row is None else {"in": row["in"]} for row in whole.values.to_pylist()]
    assert one.problems == whole.problems


def test_what_does_not_fit_is_null_and_named_or_rescued():
    array = pa.array([b'{"id":"x","text":"a"}', b'{"id":1,"more":[1]}', b"x", b'{"id":2}'], pa.binary())
    none = {"real": None, "in": None}
    rows = [
        {"id": None, "text": "a", **none},
        {"id": 1, "text": None, **none},
        {"id": None, "text": None, **none},
        {"id": 2, "text": None, **none},
    ]
    values, problems, rescued = JsonValues(SCHEMA).decode(array, None)
    assert values.to_pylist() == rows
    assert problems == {
        0: "has no BIGINT in 'id'",
        2: "is not a JSON object: Expecting value at its character 0",
    }
    assert not rescued
    values, problems, rescued = JsonValues(SCHEMA, rescues=True).decode(array, None)
    assert values.to_pylist() == rows
    assert [*problems] == [2]
    assert rescued == {0: '{"id":"x"}', 1: '{"more":[1]}'}


def test_the_text_of_a_bad_value_is_in_its_column_of_corrupt_records():
    schema = pa.schema([("id", pa.int64()), ("_corrupt_record", pa.string())])
    array = pa.array([b'{"id":1}', b"{\r\n", None], pa.binary())
    rows = [{"id": 1, "_corrupt_record": None}, {"id": None, "_corrupt_record": "{"}, None]
    assert JsonValues(schema).decode(array, None).values.to_pylist() == rows
    assert JsonValues(schema).decode(array.slice(0, 2), None).values.to_pylist() == rows[:2]


def test_texts_are_utf8():
    array = pa.array([b"a", None, b"\xff", "é".encode(), b""], pa.binary())
    values, problems, _ = StringValues().decode(array, None)
    assert (values.to_pylist(), problems) == (["a", None, None, "é", ""], {2: "is not UTF-8"})


def test_decoders_are_pickled_as_they_are():
    decoder = JsonValues(SCHEMA, rescues=True)
    assert pickle.loads(pickle.dumps(decoder)) == decoder  # noqa: S301
    values = decoder.decode(pa.array([b'{"real":"NaN"}'], pa.binary()), None).values
    assert math.isnan(values[0]["real"].as_py())


def test_values_of_a_registry_are_structs_and_null_only_if_there_is_none():
    two = avro(("id", "int"), ("at", {"type": "long", "logicalType": "timestamp-millis"}))
    raw = avro(("id", "int"), ("at", "long"))
    with registry_of({1: two}) as config:
        column = replace(column_of_subject(config, "avro", "orders-value"), id_header="__key_schema_id")
        value = avro_value(1, raw, {"id": 5, "at": 1000})
        headers = [[("__key_schema_id", header(1)), ("__value_schema_id", b"x")], None, None, None]
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        headers = pa.array([None if h is None else [{"key": k, "value": v} for k, v in h] for h in headers], kind)
        array = pa.array([value[5:], value, None, b"x"], pa.binary())
        decoder = pickle.loads(pickle.dumps(RegistryValues(column)))  # noqa: S301
        decoded, problems, _ = decoder.decode(array, headers)
        assert [row and row["id"] for row in decoded.to_pylist()] == [5, 5, None, None]
        assert decoded.is_null().to_pylist() == [False, False, True, False]
        assert [*problems] == [3]
        alone = decoder.only(["at"])
        assert alone.kind == pa.struct([("at", pa.timestamp("us", "UTC"))])
        times = alone.decode(array, headers).values.field("at").cast(pa.int64()).to_pylist()
        assert times == [1_000_000, 1_000_000, None, None]


def test_a_null_that_a_schema_allows_stays_null_beside_a_bad_value():
    optional = ["null", avro(("id", "int"))]
    with registry_of({1: optional}) as config:
        decoder = RegistryValues(column_of_subject(config, "avro", "orders-value"))
        values = [avro_value(1, optional, {"id": 5}), avro_value(1, optional, None), None, b"x"]
        decoded, problems, _ = decoder.decode(pa.array(values, pa.binary()), None)
    assert decoded.to_pylist() == [{"id": 5}, None, None, {"id": None}]
    assert [*problems] == [3]
