"""Values of Avro, compared with those that were written, and with those that Spark reads from the same bytes."""

from __future__ import annotations

import itertools
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.readers.formats.avro.files import CODECS, MILLIS, avro, logical, moment
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import OptionError
from tidegate.readers.formats.avro.format import AvroFormat
from tidegate.readers.objects.values import ChunkSurvey, TimeRange

SPARKS_OWN = "org.apache.spark.sql.avro.AvroFileFormat"
UTC_US = pa.timestamp("us", "UTC")
_numbers = itertools.count()  # names of the same length, so that files have the same length each time


def _fixed(size, **more):
    return {"type": "fixed", "name": f"fixed{next(_numbers):08}", "size": size, **more}


def _decimals(precision, scale):
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-scale, Context(prec=38)))


def _moments(step, zone=timezone.utc):
    days = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is added
    return days.map(lambda at: at.replace(microsecond=at.microsecond // step * step, tzinfo=zone))


def _milliseconds(at: time) -> int:
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1000 + at.microsecond // 1000


def _same(value):
    return value


# A type, values as the writer takes them, and the function that returns Spark's value; None stays None.
_SIMPLE = [
    lambda: ("boolean", st.booleans(), _same),
    lambda: ("int", st.integers(-(2**31), 2**31 - 1), _same),
    lambda: ("long", st.integers(-(2**63), 2**63 - 1), _same),
    lambda: ("float", st.floats(width=32, allow_nan=False), _same),
    lambda: ("double", st.floats(allow_nan=False), _same),
    lambda: ("bytes", st.binary(max_size=5), _same),
    lambda: ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=5), _same),
    lambda: (["int", "long"], st.integers(-(2**63), 2**63 - 1), _same),
    lambda: (["double", "float"], st.floats(allow_nan=False), _same),
    lambda: (_fixed(3), st.binary(min_size=3, max_size=3), _same),
    lambda: ({"type": "enum", "name": f"enum{next(_numbers):08}", "symbols": ["A", "B"]}, st.sampled_from("AB"), _same),
    lambda: (logical("int", "date"), st.dates(), _same),
    lambda: (logical("int", "time-millis"), st.times().map(lambda at: at.replace(microsecond=0)), _milliseconds),
    lambda: (MILLIS, _moments(1000), _same),
    lambda: (logical("long", "timestamp-micros"), _moments(1), _same),
    lambda: (logical("long", "local-timestamp-millis"), _moments(1000, None), _same),
    lambda: (logical("long", "local-timestamp-micros"), _moments(1, None), _same),
    lambda: (logical("bytes", "decimal", precision=5, scale=2), _decimals(5, 2), _same),
    lambda: (_fixed(16, logicalType="decimal", precision=38, scale=0), _decimals(38, 0), _same),
    lambda: (logical("string", "uuid"), st.uuids(), str),
]


def _array(inner):
    kind, values, expected = inner
    return {"type": "array", "items": kind}, st.lists(values, max_size=3), lambda some: [*map(expected, some)]


def _map(inner):
    kind, values, expected = inner
    made = st.dictionaries(st.text("abc", max_size=2), values, max_size=3)
    return {"type": "map", "values": kind}, made, lambda some: [(key, expected(item)) for key, item in some.items()]


def _optional(inner):
    kind, values, expected = inner
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds:
        return inner
    return [*kinds, "null"], st.none() | values, lambda value: None if value is None else expected(value)


def _record(inners):
    fields = {f"f{index}": inner for index, inner in enumerate(inners)}
    kind = {"type": "record", "name": f"record{next(_numbers):08}"}
    kind["fields"] = [{"name": name, "type": member[0]} for name, member in fields.items()]
    values = st.fixed_dictionaries({name: member[1] for name, member in fields.items()})
    return kind, values, lambda row: {name: member[2](row[name]) for name, member in fields.items()}


def _union(members):
    """Return a union whose values name their member, so that the writer takes the right one."""
    names = ["double", "string", "boolean", "long", "bytes"][: len(members) + 1]
    values = [st.floats(allow_nan=False), st.text("xyz"), st.booleans(), st.integers(-9, 9), st.binary(max_size=2)]
    drawn = [member.map(lambda value, name=name: (name, value)) for name, member in zip(names, values, strict=False)]

    def expected(pair):
        return {f"member{at}": pair[1] if name == pair[0] else None for at, name in enumerate(names)}

    return names, st.one_of(drawn), expected


kinds = st.recursive(
    st.sampled_from(_SIMPLE).map(lambda make: make()),
    lambda inner: (
        inner.map(_array)
        | inner.map(_map)
        | inner.map(_optional)
        | st.lists(inner, min_size=1, max_size=3).map(_record)
        | st.lists(st.none(), min_size=1, max_size=4)
        .map(_union)
        .flatmap(lambda made: st.sampled_from([made, _optional(made)]))
    ),
    max_leaves=4,
)


@settings(max_examples=50)
@given(st.data())
def test_any_survey_gives_each_row_once_and_the_times_of_its_chunks(data: st.DataObject) -> None:
    kind, values, expected = data.draw(kinds)
    rows = data.draw(st.lists(st.tuples(values, st.none() | st.integers(-9, 9)), max_size=12))
    content = avro(
        [{"c": value, "s": {"at": None if ms is None else moment(ms)}} for value, ms in rows],
        data.draw(st.sampled_from(CODECS)),
        data.draw(st.integers(1, 40)),
        c=kind,
        s={"type": "record", "name": "timed", "fields": [{"name": "at", "type": ["null", MILLIS]}]},
    )
    made = AvroFormat(InMemory(content), None, data.draw(st.integers(1, 2 * len(content))))
    obj = held(content)
    schema = made.infer([obj])
    with mock.patch.multiple("tidegate.readers.formats.avro.format", REQUEST_BYTES=data.draw(st.integers(1, 100))):
        surveys = made.survey(obj, "S.at")
        tables = [read(made, obj, schema, survey.start, survey.end) for survey in surveys]

    assert [survey.start for survey in surveys] == [0, *(survey.end for survey in surveys)][: len(surveys)]
    assert surveys[-1].end == obj.size
    assert [table.num_rows for table in tables] == [survey.rows for survey in surveys]
    delivered = [row["c"] for table in tables for row in table.to_pylist()]
    assert delivered == [expected(value) for value, _ in rows]
    times = [ms for _, ms in rows]
    for survey in surveys:
        mine = [ms for ms in times[: survey.rows] if ms is not None]
        assert survey.times == (TimeRange(min(mine), max(mine)) if mine else None)
        assert survey.rows_without_time == survey.rows - len(mine)
        del times[: survey.rows]


def test_what_spark_reads_is_what_is_read(spark, tmp_path) -> None:
    types = {
        "id": "long",
        "at": MILLIS,
        "ntz": ["null", logical("long", "local-timestamp-micros")],
        "u": ["null", "int", "string", logical("long", "timestamp-micros"), {"type": "fixed", "name": "F", "size": 3}],
        "w": [logical("int", "date"), "long"],
        "x": ["float", "double"],
        "d": ["null", logical("bytes", "decimal", precision=20, scale=3)],
        "not_d": {"type": "fixed", "name": "short", "size": 2},
        "day": logical("int", "date"),
        "clock": logical("int", "time-millis"),
        "id2": logical("string", "uuid"),
        "void": "null",
        "m": {
            "type": "map",
            "values": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "inner",
                        "fields": [
                            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
                            {"name": "f", "type": ["F", "null"]},
                            {"name": "again", "type": {"type": "array", "items": "tests.E"}},
                        ],
                    },
                },
            ],
        },
    }
    unions = [None, 5, "text", datetime(2024, 2, 29, 12, 30, 1, 123_456, timezone.utc), b"abc"]
    rows = [
        {
            "id": number,
            "at": datetime(1969, 12, 31, 23, 59, 59, 999_000, timezone.utc) + timedelta(milliseconds=number),
            "ntz": datetime(2024, 2, 29, 12, 30, 1, 123_456) if number % 2 else None,  # noqa: DTZ001 - the type has no zone
            "u": unions[number % 5],
            "w": 2**40 + number,
            "x": 0.1,
            "d": Decimal(number).scaleb(-3) if number % 3 else None,
            "not_d": b"\x00\xff",
            "day": date(1500 + number, 1, 1),
            "clock": time(1, 2, 3),
            "id2": uuid.UUID(int=number),
            "void": None,
            "m": {"k": None, "l": [{"e": "B", "f": None, "again": ["A"]}, {"e": "A", "f": b"123", "again": []}]},
        }
        for number in range(20)
    ]
    content = avro(rows, "snappy", 100, **types)
    path = tmp_path / "x.avro"
    path.write_bytes(content)
    made, obj = AvroFormat(InMemory(content)), held(content)
    schema = made.infer([obj])
    frame = spark.read.format(SPARKS_OWN).load(str(path))
    assert StructType.fromJson(from_arrow_schema(schema).jsonValue()) == frame.schema
    assert read(made, obj, schema).to_pylist() == frame.toArrow().to_pylist()


_NOTHING_AND_TEXT = {
    "type": "record",
    "name": "item",
    "fields": [{"name": "nothing", "type": "null"}, {"name": "text", "type": "string"}],
}


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ({"type": "array", "items": ["null"]}, [None] * 3, None),
        ({"type": "map", "values": "null"}, {"a": None, "b": None}, pa.map_(pa.string(), pa.int64())),
        ({"type": "array", "items": _NOTHING_AND_TEXT}, [{"nothing": None, "text": "ä"}] * 3, None),
    ],
)
def test_each_null_within_a_list_is_there(kind, value, wanted) -> None:
    content = avro([{"c": value}, {"c": type(value)()}, {"c": value}], c=kind)
    made, obj = AvroFormat(InMemory(content)), held(content)
    schema = made.infer([obj]) if wanted is None else pa.schema([("c", wanted)])
    table = read(made, obj, schema)
    table.validate(full=True)
    expected = [*value.items()] if isinstance(value, dict) else value
    assert table.column("c").to_pylist() == [expected, [], expected]


def test_what_spark_wrote_is_read(spark, tmp_path) -> None:
    frame = spark.sql(
        "select id, timestamp_millis(id) at, cast(id as decimal(9, 2)) d, array(named_struct('a', id)) s from range(50)"
    ).coalesce(1)
    for codec in ("uncompressed", "deflate", "snappy", "zstandard", "bzip2", "xz"):
        frame.write.format(SPARKS_OWN).option("compression", codec).save(str(tmp_path / codec))
        (path,) = (tmp_path / codec).glob("*.avro")
        content = path.read_bytes()
        made, obj = AvroFormat(InMemory(content)), held(content)
        assert made.survey(obj, "at") == [ChunkSurvey(0, obj.size, 50, TimeRange(0, 49))]
        assert read(made, obj, made.infer([obj])).to_pylist() == frame.toArrow().to_pylist()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            {"type": "array", "items": "tests.row"},
            "the column 'c.element' is of the type tests.row, which contains itself",
        ),
        (
            logical("bytes", "decimal", precision=39),
            "the column 'c' is a decimal of 39 digits; Spark's have 38 at most",
        ),
    ],
)
def test_types_that_spark_does_not_hold_are_refused(kind, sentence) -> None:
    content = avro([], c=kind)
    with pytest.raises(OptionError, match=f"^{sentence}"):
        AvroFormat(InMemory(content)).infer([held(content)])
