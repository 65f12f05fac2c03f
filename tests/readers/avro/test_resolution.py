"""Values of Avro, written by one schema and read as another, and flat ones as fastavro reads them."""

import io
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.formats.files import logical
from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.avro import records
from tidegate.readers.avro.records import AvroValues
from tidegate.readers.avro.resolution import AvroSchema

BAD = object()


def record(_name, _aliases=(), **types):
    fields = [
        {"name": name, **(of if isinstance(of, dict) and "of" in of else {"type": of})} for name, of in types.items()
    ]
    for field in fields:
        if "of" in field:
            field["type"] = field.pop("of")
    return {"type": "record", "name": _name, "aliases": [*_aliases], "fields": fields}


def field(kind, *aliases, **more):
    return {"of": kind, "aliases": [*aliases], **more}


def enum(*symbols, name="E", **more):
    return {"type": "enum", "name": name, "symbols": [*symbols], **more}


def fixed(size, name="F", **more):
    return {"type": "fixed", "name": name, "size": size, **more}


def read(writer, reader, *values, names=None):
    """Return values that fastavro has written, as the reader has them; BAD: they are refused."""
    raw = fastavro.parse_schema(writer)
    encoded = []
    for value in values:
        payload = io.BytesIO()
        fastavro.schemaless_writer(payload, raw, value)
        encoded.append(payload.getvalue())
    array, good = AvroValues(AvroSchema(writer), AvroSchema(reader), names).decode(encoded)
    return [value if fits else BAD for value, fits in zip(array.to_pylist(), good, strict=True)]


ORDER = record("Order", id=["null", "int"])
PAYMENT = record("Payment", sum="int")


def test_a_value_in_a_union_is_read_only_as_a_record_of_its_name():
    assert read([ORDER, PAYMENT], ORDER, ("Order", {"id": 1}), ("Payment", {"sum": 5})) == [{"id": 1}, BAD]
    assert read(["null", PAYMENT], ["null", ORDER], None, ("Payment", {"sum": 5})) == [None, BAD]
    with pytest.raises(CorruptDataError, match=r"^a value was written as a union, which cannot be read as Order$"):
        read(["null", PAYMENT], ORDER, {"sum": 5})
    with pytest.raises(CorruptDataError, match=r"^a value was written as Payment, which cannot be read as Order$"):
        read(PAYMENT, ORDER, {"sum": 5})


def test_a_name_counts_without_its_namespace_and_by_its_aliases():
    old = {**record("Purchase", id="int"), "namespace": "of.before"}
    assert read(old, record("Purchase", id="int"), {"id": 1}) == [{"id": 1}]
    assert read(old, record("Order", ["of.before.Purchase"], id="int"), {"id": 1}) == [{"id": 1}]


def test_each_alias_takes_the_field_of_its_own_name():
    old, new = record("T", some_value="long"), record("T", some_new_value=field("long", "some_value"))
    assert read(old, new, {"some_value": 5}) == [{"some_new_value": 5}]
    chain = record("T", b=field("int", "a"), c=field("int", "b"))
    for order in ("ab", "ba"):
        assert read(record("T", **dict.fromkeys(order, "int")), chain, {"a": 1, "b": 2}) == [{"b": 1, "c": 2}]
    assert read(chain, chain, {"b": 1, "c": 2}) == [{"b": 1, "c": 2}]
    both = record("T", a="int", b="int")
    assert read(both, record("T", b=field("int", "a")), {"a": 1, "b": 2}) == [{"b": 2}]
    with pytest.raises(CorruptDataError, match="several of its fields are the same in 'T', by name or alias"):
        read(both, record("T", c=field("int", "a", "b")), {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("written", "value", "as_type", "expected"),
    [
        ("int", 5, "long", 5),
        ("int", 5, "double", 5.0),
        ("long", 2**53 + 1, "double", float(2**53)),
        ("float", 0.5, "double", 0.5),
        ("string", "ä", "bytes", "ä".encode()),
        ("bytes", "ä".encode(), "string", "ä"),
        ("int", 5, ["int", "string"], {"member0": 5, "member1": None}),
        ("int", 5, ["string", "long"], {"member0": None, "member1": 5}),
        ("int", 5, ["string", "long", "int"], {"member0": None, "member1": None, "member2": 5}),
        ("string", "a", ["bytes", "string"], {"member0": None, "member1": "a"}),
        (["null", "string", "int"], 5, ["int", "null", "string"], {"member0": 5, "member1": None}),
        (["null", "string", "int"], None, ["int", "null", "string"], None),
        (["int", "long"], 5, "double", 5.0),
        (["null", "int"], 5, "int", 5),
        (["null", "int"], None, "int", BAD),
        (["string", "int"], "a", ["null", "int"], BAD),
        (
            ["null", record("A", x="int"), record("B", x="int")],
            ("B", {"x": 5}),
            ["null", record("B", x="long")],
            {"x": 5},
        ),
        (enum("a", "b"), "b", enum("b", "c"), "b"),
        (enum("a", "b"), "a", enum("b", "c"), BAD),
        (enum("a", "b"), "a", enum("b", "c", default="c"), "c"),
        (fixed(2), b"ab", fixed(2), b"ab"),
        ({"type": "array", "items": "int"}, [1, 2], {"type": "array", "items": "long"}, [1, 2]),
        ({"type": "map", "values": "int"}, {"k": 1}, {"type": "map", "values": "double"}, [("k", 1.0)]),
        (
            logical("bytes", "decimal", precision=4, scale=2),
            Decimal("1.25"),
            logical("bytes", "decimal", precision=6, scale=2),
            Decimal("1.25"),
        ),
    ],
)
def test_a_field_has_the_value_that_java_s_library_gives(written, value, as_type, expected):
    writer, reader = record("R", f=written), record("R", f=as_type)
    given = [BAD if expected is BAD else {"f": expected if expected is not None else None}]
    assert read(writer, reader, {"f": value}) == [BAD if expected is BAD else given[0]]


@pytest.mark.parametrize(
    ("written", "as_type"),
    [
        ("string", "long"),
        ("boolean", "int"),
        ("long", "int"),
        ("double", "float"),
        ("int", ["null", "string"]),
        (fixed(2), fixed(3)),
        (fixed(2), fixed(2, name="G")),
        (enum("a"), enum("a", name="G")),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "long"}),
        (logical("bytes", "decimal", precision=4, scale=2), logical("bytes", "decimal", precision=4, scale=1)),
        (logical("int", "date"), logical("long", "timestamp-millis")),
        (record("A", x="int"), record("B", x="int")),
    ],
)
def test_what_the_specification_refuses_is_refused(written, as_type):
    with pytest.raises(CorruptDataError, match=r"^the field 'f(\.element)?' was written as"):
        read(record("R", f=written), record("R", f=as_type))


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("int", 5, 5),
        ("double", 5, 5.0),
        ("bytes", "\u00ff", b"\xff"),
        (logical("bytes", "decimal", precision=4, scale=2), "\u007d", Decimal("1.25")),
        (logical("long", "local-timestamp-millis"), 5, 5),
        (["null", "int"], None, None),
        (["int", "null"], 7, 7),
        (["int", "string"], 7, {"member0": 7, "member1": None}),
        (enum("a", "b"), "b", "b"),
        ({"type": "array", "items": "int"}, [1], [1]),
        ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
        (record("Inner", x="int", y=field("string", default="d")), {"x": 1}, {"x": 1, "y": "d"}),
    ],
)
def test_a_field_that_the_writer_lacks_has_its_default(kind, default, expected):
    (row,) = read(record("R", a="int"), record("R", f=field(kind, default=default), a="int"), {"a": 1})
    assert row["a"] == 1
    assert (row["f"] if expected != 5 or kind == "int" else expected) == expected


def test_a_field_that_the_writer_lacks_and_that_has_no_default_is_refused():
    with pytest.raises(CorruptDataError, match="it has no field 'f', and that has no default"):
        read(record("R", a="int"), record("R", a="int", f=["null", "int"]), {"a": 1})


def test_an_instant_stays_the_same_if_the_unit_changes():
    old, new = (record("R", at=logical("long", f"timestamp-{unit}")) for unit in ("millis", "micros"))
    values = AvroValues(AvroSchema(old), AvroSchema(new))
    assert values.kind == pa.struct([("at", pa.timestamp("ms", "UTC"))])
    assert values.decode([b"\x02"])[0].field("at").cast(pa.int64()).to_pylist() == [1]


NODE = record("Node", value="int", next=["null", "Node"])


@pytest.mark.parametrize("first", [True, False])
def test_a_type_that_contains_itself_makes_only_its_own_column_unreadable(first):
    types = {"chain": NODE, "id": "int"}
    schema = AvroSchema(record("R", **(types if first else dict(reversed(types.items())))))
    assert schema.kind == pa.struct([("id", pa.int32())])
    chain = {"value": 1, "next": {"value": 2, "next": None}}
    raw = schema.root.schema
    assert read(raw, raw, {"chain": chain, "id": 7}) == [{"id": 7}]
    assert read(raw, record("R", id="long"), {"chain": chain, "id": 7}) == [{"id": 7}]
    with pytest.raises(OptionError, match=r"the column 'chain.next' is of the type Node, which contains itself"):
        AvroValues(schema, schema, ["chain"])


def test_a_name_is_the_same_type_wherever_it_stands():
    money = {**record("Money", cents="long"), "namespace": "shop"}
    writer = record("R", price=money, tax=["null", "shop.Money"])
    reader = record("R", tax=["null", money], price="shop.Money")
    values = {"price": {"cents": 5}, "tax": {"cents": 1}}
    assert read(writer, reader, values) == [values]


@pytest.mark.parametrize("bad", [b"", b"\x02", b"\x02\x04a", b"\x02\x02ab", b"\x04\x02a"])
def test_bytes_that_are_no_value_of_the_schema_are_refused_alone(bad):
    schema = AvroSchema(record("R", u=["null", "int"], s="string"))
    array, good = AvroValues(schema, schema).decode([b"\x00\x02a", bad, b"\x02\x02\x02b"])
    assert good.tolist() == [True, False, True]
    assert array.to_pylist() == [{"u": None, "s": "a"}, None, {"u": 1, "s": "b"}]


def test_a_list_that_claims_more_items_than_there_are_bytes_is_refused_at_once():
    schema = AvroSchema(record("R", many={"type": "array", "items": "double"}, at="long"))
    claim = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0"
    assert AvroValues(schema, schema, ["at"]).decode([claim])[1].tolist() == [False]


@pytest.mark.parametrize(
    "schema", ['"long"', {"type": "record"}, {"type": "record", "name": 7, "fields": []}, 7, {"type": "Order"}]
)
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(CorruptDataError, match=r"^its schema is not a valid Avro schema$"):
        AvroSchema(schema)


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
