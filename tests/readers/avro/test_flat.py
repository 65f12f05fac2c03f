"""Flat records, which a compiled loop decodes, beside fastavro over random schemas, values and broken bytes."""

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.readers.avro import records
from tidegate.readers.avro.records import AvroValues
from tidegate.readers.avro.resolution import AvroSchema

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)
INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-100, 100)
VALUES = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=9),
    "bytes": st.binary(max_size=9),
    "int date": INTS,
    "long timestamp-millis": st.integers(-(2**50), 2**50),
    "long timestamp-micros": LONGS,
    "long local-timestamp-nanos": LONGS,
}
KINDS = st.tuples(st.sampled_from([*VALUES]), st.sampled_from([None, "first", "last"]))


def type_of(kind, null):
    base, _, logical = kind.partition(" ")
    plain = {"type": base, "logicalType": logical} if logical else base
    return {None: plain, "first": ["null", plain], "last": [plain, "null"]}[null]


def schema_of(fields):
    types = [{"name": f"f{number}", "type": type_of(*field)} for number, field in enumerate(fields)]
    return {"type": "record", "name": "R", "fields": types}


def encoded(fields, row):
    """Return a row by a schema without logical types, whose values fastavro would convert."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema_of([(kind.partition(" ")[0], null) for kind, null in fields]), row)
    return stream.getvalue()


@st.composite
def cases(draw):
    fields = draw(st.lists(KINDS, min_size=1, max_size=5))
    each = {f"f{n}": VALUES[kind] | st.none() if null else VALUES[kind] for n, (kind, null) in enumerate(fields)}
    payloads = [encoded(fields, row) for row in draw(st.lists(st.fixed_dictionaries(each), max_size=6))]
    odd = [*(one[:-1] for one in payloads), *(one + b"\0" for one in payloads), b"\xff" * 9 + b"\2", b"\4\2"]
    broken = draw(st.just([]) | st.lists(st.binary(max_size=12) | st.sampled_from(odd), max_size=2))
    names = draw(st.none() | st.lists(st.sampled_from([*each]), min_size=1, unique=True))
    return schema_of(fields), names, draw(st.permutations([*payloads, *broken]))


def decoded(schema, names, values, enough):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "ENOUGH", enough)
        own = AvroSchema(schema)
        array, good = AvroValues(own, own, names).decode(values)
    return array.type, [*map(repr, _rows(array))], good.tolist()


def _rows(array):
    """Return rows whose times are numbers, which may be beyond Python's."""
    columns = [array.field(n) for n in range(array.type.num_fields)]
    plain = [column.view(f"int{column.type.bit_width}") if "[" in str(column.type) else column for column in columns]
    return [*zip(array.is_null().to_pylist(), *(column.to_pylist() for column in plain), strict=True)]


@given(cases())
def test_values_and_what_is_none_are_those_of_the_library(case):
    schema, names, values = case
    assert decoded(schema, names, values, 0) == decoded(schema, names, values, 10**9)


def test_whole_values_are_not_left_to_the_library(monkeypatch):
    fields = [("long", None), ("string", "first"), ("double", None)]
    values = [encoded(fields, {"f0": n, "f1": None if n % 3 else "ü" * n, "f2": n / 7}) for n in range(300)]
    monkeypatch.setattr(AvroValues, "read", None)
    own = AvroSchema(schema_of(fields))
    array, good = AvroValues(own, own).decode(values)
    assert good.all()
    assert array.to_pylist()[3:5] == [{"f0": 3, "f1": "üüü", "f2": 3 / 7}, {"f0": 4, "f1": None, "f2": 4 / 7}]
    assert AvroValues(own, own, ["f2"]).decode(values)[0].field("f2").to_pylist() == [n / 7 for n in range(300)]
