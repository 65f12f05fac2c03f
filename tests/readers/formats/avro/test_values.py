"""Values of Avro, compared with those that were written, and with those that Spark reads from the same bytes."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.readers.formats.avro.files import MILLIS, avro, logical
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import OptionError
from tidegate.readers.formats.avro.format import AvroFormat

SPARKS_OWN = "org.apache.spark.sql.avro.AvroFileFormat"


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
        "flag": "boolean",
        "f": "float",
        "raw": "bytes",
        "d38": {"type": "fixed", "name": "G", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 0},
        "l": {"type": "array", "items": ["null", "long", "string"]},
        "millis": logical("long", "local-timestamp-millis"),
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
            "flag": number % 2 == 0,
            "f": 0.1,
            "raw": bytes([number]),
            "d38": Decimal(number - 10),
            "l": [None, number, f"text {number}"][: number % 4],
            "millis": datetime(1960, 1, 1, 0, 0, 0, 5_000) if number else datetime(2024, 1, 1),  # noqa: DTZ001
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
