"""Schemas and rows are those of Spark's Parquet reader, and columns in DDL those of Spark's parser.

Arrow's own conversions, which import pandas, are the oracle for values.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from tests.support.objects.lab import arrays, fields
from tidegate.errors import BadRecordError, CorruptDataError, OptionError
from tidegate.readers.arrow.arrays import are_null, int64_values, integers
from tidegate.readers.arrow.conform import conform, plain, plain_type, position_of, spark_schema
from tidegate.readers.arrow.ddl import columns_of_ddl, ddl_of
from tidegate.readers.arrow.text_values import timestamps
from tidegate.spark_private import from_arrow_schema

UTC_US = pa.timestamp("us", "UTC")


def one(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    schema = pa.schema([("c", wanted)])
    made = conform(pa.record_batch([values], ["c"]), schema)
    assert made.schema.equals(schema, check_metadata=True)
    made.validate(full=True)
    return made.column(0)


def as_spark_has_it(value: Any, kind: pa.DataType) -> Any:
    """The oracle: return a Python value of a type as Spark has it."""
    kind = plain_type(kind)
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: as_spark_has_it(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(as_spark_has_it(k, kind.key_type), as_spark_has_it(v, kind.item_type)) for k, v in value]
    if pa.types.is_nested(kind):
        return [as_spark_has_it(item, kind.value_type) for item in value]
    if pa.types.is_uint64(kind):
        return Decimal(value)
    return value


@settings(max_examples=300)
@given(st.data())
def test_values_of_any_type_are_kept(data: st.DataObject) -> None:
    field = data.draw(fields())
    values = data.draw(arrays(field.type))
    start = data.draw(st.integers(0, len(values)))
    wanted = spark_schema(pa.schema([field])).field(0).type
    made = one(values.slice(start), wanted)
    expected = [as_spark_has_it(value, field.type) for value in values.slice(start).to_pylist()]
    assert made.to_pylist() == expected
    # A batch that has the schema already stays as it is.
    assert one(made, wanted).equals(made)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30"])
def test_timestamps_become_microseconds_rounded_down(unit: str, zone: str | None) -> None:
    per = {"s": 10**6, "ms": 10**3, "us": 1, "ns": Decimal("0.001")}[unit]
    numbers = [-1_500_001, -1, 0, 1, 999, 1_700_000_001, None]
    expected = [None if number is None else math.floor(number * per) for number in numbers]
    for wanted in (UTC_US, pa.timestamp("us")):
        made = one(pa.array(numbers, pa.int64()).view(pa.timestamp(unit, zone)), wanted)
        assert made.view(pa.int64()).to_pylist() == expected


def test_nested_fields_go_by_name_too() -> None:
    given_type = pa.list_(pa.struct([("b", pa.uint8()), ("surplus", pa.string()), ("at", pa.timestamp("ns"))]))
    wanted = pa.list_(pa.field("element", pa.struct([("at", UTC_US), ("B", pa.int16()), ("missing", pa.string())])))
    values = pa.array(
        [[{"b": 200, "surplus": "x", "at": -1}, None], None, [], [{"b": None, "surplus": "", "at": 2000}]], given_type
    )
    before, after = (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=us) for us in (-1, 2))
    rows = [
        [{"at": before, "B": 200, "missing": None}, None], None, [], [{"at": after, "B": None, "missing": None}]
    ]  # fmt: skip
    for start in range(5):
        assert one(values.slice(start), wanted).to_pylist() == rows[start:]
    as_map = pa.array([[("k", {"b": 1})], None, []], pa.map_(pa.string(), pa.struct([("b", pa.uint8())])))
    wanted = pa.map_(pa.string(), pa.field("value", pa.struct([("b", pa.int64()), ("c", pa.int32())])))
    for start in range(4):
        assert one(as_map.slice(start), wanted).to_pylist() == [[("k", {"b": 1, "c": None})], None, []][start:]


def test_a_name_is_itself_or_the_only_one_but_for_case() -> None:
    assert position_of("a", ["A", "a"]) == 1
    assert position_of("b", ["A", "B"]) == 1
    assert position_of("c", ["A", "B"]) is None
    for name, names in (("A", ["A", "A"]), ("aa", ["Aa", "aA"])):
        with pytest.raises(CorruptDataError, match=f"2 columns are called '{name}'"):
            position_of(name, names)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array(["s3cret"]), pa.int32()),
        (pa.array([2**40]), pa.int32()),
        (pa.array([1]), UTC_US),
        (pa.array([1.5]), pa.date32()),
        (pa.array([1], pa.timestamp("us")), pa.int64()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([b"\xff"]), pa.string()),
        (pa.array([Decimal("1.23")]), pa.decimal128(5, 1)),
        (pa.array([2**60], pa.timestamp("s")), UTC_US),
        (pa.array([[1]]), pa.int64()),
        (pa.array([1]), pa.list_(pa.int64())),
        (pa.array([{"a": 1}]), pa.int64()),
        (
            pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
            pa.list_(pa.struct([("value", pa.string()), ("key", pa.string())])),
        ),
        (pa.array([1], pa.timestamp("us")), pa.date32()),
        (pa.array([1], pa.timestamp("ns", "Europe/Berlin")), pa.date32()),
        (pa.array([0.1]), pa.float32()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([5]), pa.bool_()),
        (pa.array([0.5]), pa.bool_()),
        (pa.array([0.15]), pa.decimal128(3, 1)),
        (pa.array([Decimal(12345678901234567890)]), pa.float64()),
        (pa.array([Decimal("0.123456789")]), pa.float32()),
    ],
)
def test_what_does_not_fit_is_reported_without_the_value(values: pa.Array, wanted: pa.DataType) -> None:
    with pytest.raises(BadRecordError) as error:
        one(values, wanted)
    sentence = f"the column 'c' is of the type {values.type}, and not every value of it is a {wanted}"
    assert str(error.value) == f"{sentence}: give it a type that holds them all"


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([86_400, None], pa.timestamp("s")), pa.date32()),
        (pa.array([86_400_000, None], pa.timestamp("ms", "America/New_York")), pa.date32()),
        (pa.array([0.5, float("inf"), None]), pa.float32()),
        (pa.array([0, 1, None]), pa.bool_()),
        (pa.array([1.5, None]), pa.decimal128(3, 1)),
    ],
)
def test_what_a_cast_does_not_change_is_cast(values: pa.Array, wanted: pa.DataType) -> None:
    made = one(values, wanted).to_pylist()
    assert made == [date(1970, 1, 2), None] if wanted == pa.date32() else made == values.to_pylist()
    assert math.isnan(one(pa.array([float("nan")]), pa.float32())[0].as_py())


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([1.0]), "1"),
        (pa.array([1e300]), "1e+300"),
        (pa.array([0.1], pa.float32()), "0.1"),
        (pa.array([Decimal("1.50")]), "1.50"),
        (pa.array([True]), "true"),
        (pa.array(["ä".encode()]), "ä"),
        (pa.array([0], pa.timestamp("ms")), "1970-01-01 00:00:00.000"),
        (pa.array([0], pa.timestamp("us", "UTC")), "1970-01-01 00:00:00.000000Z"),
        (pa.array([0], pa.timestamp("s", "Europe/Berlin")), "1970-01-01 01:00:00+0100"),
    ],
)
def test_a_text_keeps_the_digits_and_the_zone_of_its_value(values: pa.Array, text: str) -> None:
    assert one(values, pa.string()).to_pylist() == [text]


@given(st.integers(-(10**15), 10**15), st.integers(0, 18))
def test_a_decimal_of_fifteen_digits_becomes_the_nearest_double(digits: int, scale: int) -> None:
    decimal = Decimal(digits).scaleb(-scale)
    values = pa.array([decimal, None], pa.decimal128(38, 18))
    assert one(values, pa.float64()).to_pylist() == [float(decimal), None]


def test_a_fault_within_names_the_whole_path() -> None:
    with pytest.raises(BadRecordError, match=r"the column 'c\.element\.a' is of the type string"):
        one(pa.array([[{"a": "x"}]]), pa.list_(pa.struct([("a", pa.int32())])))


@pytest.mark.parametrize(
    "kind",
    [pa.time32("ms"), pa.time64("us"), pa.duration("us"), pa.float16(), pa.decimal256(39, 2),
     pa.month_day_nano_interval(), pa.dense_union([pa.field("a", pa.int32())])],
)  # fmt: skip
def test_a_type_that_spark_cannot_hold_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(OptionError, match=r"^the column 'a\.b\.element' is of the type .*, which Spark cannot hold"):
        spark_schema(pa.schema([("a", pa.struct([("b", pa.list_(kind))]))]))


def test_names_that_are_one_to_spark_are_refused() -> None:
    for names in (["a", "A"], ["a", "a"]):
        with pytest.raises(OptionError, match=r"'a' and '[aA]' are the same to Spark$"):
            spark_schema(pa.schema([(name, pa.int8()) for name in names]))


def test_wrappings_are_taken_off() -> None:
    coded = pa.array(["a", "b", "a"]).dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, None]))
    assert plain(coded).to_pylist() == ["a", "b", "a"]
    assert plain(runs).to_pylist() == [7, 7, None]
    assert plain(pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"1" * 16], pa.binary(16)))).type == pa.binary(16)


def test_the_schema_is_that_of_sparks_own_reader(spark, tmp_path) -> None:
    day = date(2024, 2, 29)
    one_of = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.float32(), pa.float64()]
    columns = {
        **{f"one_{kind}": pa.array([1], kind) for kind in one_of},
        "u32": pa.array([2**32 - 1], pa.uint32()), "u64": pa.array([2**64 - 1], pa.uint64()), "b": pa.array([True]),
        "d9": pa.array([Decimal("1.23")], pa.decimal128(9, 2)),
        "d38": pa.array([Decimal("-1.23")], pa.decimal128(38, 10)),
        "s": pa.array(["ä"]), "ls": pa.array(["ä"], pa.large_string()), "code": pa.array(["x"]).dictionary_encode(),
        "bin": pa.array([b"\xff"]), "fixed": pa.array([b"ab"], pa.binary(2)),
        "day": pa.array([day]), "day64": pa.array([day], pa.date64()),
        "list": pa.array([[1, None]]), "large": pa.array([[1]], pa.large_list(pa.uint8())),
        "fix": pa.array([[1, 2]], pa.list_(pa.int32(), 2)), "struct": pa.array([{"a": 1, "b": [{"c": "x"}]}]),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.uint8())),
        **{f"t_{unit}": pa.array([1_700_000_000], pa.timestamp(unit)) for unit in ("s", "ms", "us")},
        **{f"z_{unit}": pa.array([1_700_000_000], pa.timestamp(unit, "Asia/Tokyo")) for unit in ("s", "ms", "us")},
    }  # fmt: skip
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "all.parquet")
    frame = spark.read.parquet(str(tmp_path / "all.parquet"))
    stored = pq.read_table(tmp_path / "all.parquet", partitioning=None)
    schema = spark_schema(stored.schema)
    ours = from_arrow_schema(schema)
    assert StructType.fromJson(ours.jsonValue()) == frame.schema
    made = conform(stored.to_batches()[0], schema)
    assert made.to_pylist() == frame.toArrow().to_pylist()


def test_times_that_nanoseconds_cannot_hold_are_not_parsed_as_a_column():
    """PyArrow before 25 gives the time of another century."""
    for text in ("2300-01-01T00:00:00.1234567Z", "9999-12-31T23:59:59.9999999", "1600-01-01T00:00:00.1234567"):
        with pytest.raises(pa.ArrowInvalid):
            timestamps(pa.array([text]), pa.timestamp("us", "UTC"))
    [found] = timestamps(pa.array(["2200-01-01T23:30:00.1234567-05:00"]), pa.timestamp("us", "UTC")).to_pylist()
    assert found.isoformat() == "2200-01-02T04:30:00.123456+00:00"


INT64 = st.integers(-(2**63), 2**63 - 1)
CUTS = st.integers(0, 20)


@given(st.lists(INT64 | st.none(), max_size=30), CUTS, CUTS)
def test_numbers_and_nulls_go_both_ways_also_in_a_slice(values, start, rows):
    array = pa.array(values, pa.int64()).slice(start, rows)
    numbers, nulls = int64_values(array), are_null(array)
    assert [None if null else number for number, null in zip(numbers.tolist(), nulls, strict=True)] == array.to_pylist()
    back = integers(numbers, pa.int64(), nulls)
    back.validate(full=True)
    assert back.equals(array)


NUMBERS = ["byte", "tinyint", "short", "smallint", "INT", "integer", "long", "bigint", "float", "real", "double"]
TIMES = ["date", "timestamp", "timestamp_ltz", "timestamp_ntz"]
SIMPLE = st.sampled_from([*NUMBERS, *TIMES, "boolean", "string", "binary", "decimal", "dec(3)", "numeric(38,38)"])
NAMES = st.sampled_from(["a", "`b c`", "`x``y`", "order", "timestamp", "_1", "`é`", "struct", "not"])
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds("array<{}>".format, inner),
        st.builds("MAP < string , {} >".format, inner),
        st.builds("struct<{} : {} not null, `z`{} comment 'it is, <z>'>".format, NAMES, inner, inner.map(" {}".format)),
    ),
    max_leaves=4,
)
COLUMNS = st.lists(st.tuples(NAMES, TYPES), min_size=1, max_size=3, unique_by=lambda column: column[0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(COLUMNS)
def test_columns_are_those_of_spark_but_nullable(spark, columns):
    text = ", ".join(f"{name} {kind}" for name, kind in columns)
    theirs = StructType.fromDDL(text)
    assert from_arrow_schema(columns_of_ddl(text)).simpleString() == theirs.simpleString()
    assert columns_of_ddl(f"struct<{text}>") == columns_of_ddl(text)
    assert all(field.nullable for field in columns_of_ddl(text))
    assert columns_of_ddl(ddl_of(pa.struct(columns_of_ddl(text)))) == columns_of_ddl(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a name or a type is missing$"),
        ("a", "a name or a type is missing after 'a'$"),
        ("a INT b INT", "'b' is not expected there$"),
        ("a INT,", "is missing after ','$"),
        ("a lng", "there is no type 'LNG' that can be read; did you mean 'LONG'"),
        ("a INT(5)", r"'\(' is not expected there$"),
        ("a DECIMAL(39)", "a decimal has 1 to 38 digits"),
        ("a DECIMAL(2, 3)", "a decimal has 1 to 38 digits"),
        ("a DECIMAL(x)", "'x' is not a number$"),
        ("a INT, A INT", "it names the column 'A' twice$"),
        ("a STRUCT<>", "'>' is not the name of a column$"),
        ("a ARRAY<INT", "'>' is missing after 'INT'$"),
        ("a INT COMMENT b", "COMMENT has no text$"),
        ("a INT NOT", "'NULL' is missing"),
        ("a INT; b", "it is malformed at its character 6$"),
        ("a-b INT", "it is malformed at its character 2$"),
        ("a VARIANT", "there is no type 'VARIANT' that can be read"),
        ("é INT", "it is malformed at its character 1$"),
        ("5 INT", "'5' is not the name of a column$"),
    ],
)
def test_other_texts_are_refused_in_one_sentence(text, sentence):
    with pytest.raises(ValueError, match="^expected columns in Spark's DDL, such as 'id BIGINT.*" + sentence):
        columns_of_ddl(text)


def test_types_are_arrows():
    assert columns_of_ddl("a timestamp, b map<int, array<double>>") == pa.schema(
        [
            ("a", pa.timestamp("us", "UTC")),
            ("b", pa.map_(pa.int32(), pa.list_(pa.field("element", pa.float64())))),
        ]
    )
