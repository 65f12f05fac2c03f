"""Avro objects in chunks give each row once, by no more requests than needed, with the values that Spark reads."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.readers.formats.files import MILLIS, SPARKS_AVRO, avro, avro_format, logical, moment
from tests.support.objects.lab import InMemory, chunk, held, read
from tidegate.errors import OptionError
from tidegate.readers.objects.values import SMALL_BYTES, TimeRange


@pytest.fixture(scope="module")
def large() -> bytes:
    """An object of more than SMALL_BYTES, in order of time."""
    count = 150_000
    rows = ({"n": n, "at": n * 10, "pad": b"x" * 60} for n in range(count))
    content = avro(rows, n="long", at={"type": "long", "logicalType": "timestamp-millis"}, pad="bytes")
    assert len(content) > SMALL_BYTES
    return content


def test_only_the_ends_of_large_chunks_are_looked_at(large) -> None:
    store, obj = InMemory(large), held(large)
    surveys = avro_format(store, chunk_bytes=obj.size // 2 + 1).survey(obj, "at")
    assert len(surveys) == 2
    assert sum(end - start for start, end in store.asked) < obj.size / 8
    assert len(store.asked) == 5  # the header, and both ends of both chunks
    tables = [
        read(avro_format(store), obj, pa.schema([("n", pa.int64())]), survey.start, survey.end) for survey in surveys
    ]
    for survey, table in zip(surveys, tables, strict=True):
        numbers = table.column("n").to_pylist()
        assert survey.times == TimeRange(numbers[0] * 10, numbers[-1] * 10)
        assert survey.rows == pytest.approx(len(numbers), rel=0.02)
    assert sum(table.num_rows for table in tables) == 150_000


def test_a_chunk_costs_little_more_than_its_bytes(large) -> None:
    store, obj = InMemory(large), held(large)
    start, end = obj.size // 3, obj.size * 2 // 3
    read(avro_format(store), obj, pa.schema([("n", pa.int64())]), start, end)
    assert sum(end - start for start, end in store.asked) < end - start + (200 << 10)


def test_blocks_larger_than_what_is_looked_at_are_looked_for() -> None:
    rows = [{"at": moment(n), "pad": bytes(200_000)} for n in range(9)]
    content = avro(rows, sync_interval=1, at=MILLIS, pad="bytes")
    obj = held(content)
    surveys = avro_format(InMemory(content), chunk_bytes=obj.size // 2 + 1).survey(obj, "at")
    assert [survey.times for survey in surveys] == [TimeRange(0, 4), TimeRange(5, 8)]
    assert not any(survey.exact for survey in surveys)


def test_a_header_may_be_long() -> None:
    content = avro([{"c": n} for n in range(3)], c={"type": "long", "doc": "x" * 300_000})
    obj = held(content)
    made = avro_format(InMemory(content), chunk_bytes=100_000)
    surveys = made.survey(obj, "at")
    assert [(survey.rows, survey.exact) for survey in surveys] == [(0, True), (0, True), (0, True), (3, True)]
    assert read(made, obj, made.infer([obj]), surveys[-1].start).to_pylist() == [{"c": n} for n in range(3)]


def test_batches_are_bounded_whatever_the_blocks_are() -> None:
    rows = [{"s": "x" * 3_000} for _ in range(3_000)]
    for sync_interval in (1, 10**8):
        store = InMemory(avro(rows, "deflate", sync_interval, s="string"))
        batches = list(avro_format(store).read(chunk(store.listed()), pa.schema([("s", pa.string())])))
        assert sum(batch.num_rows for batch in batches) == 3_000
        assert max(batch.nbytes for batch in batches) <= 2 << 20
    store = InMemory(avro(({"n": 1} for _ in range(40_000)), n="long"))
    assert max(batch.num_rows for batch in avro_format(store).read(chunk(store.listed()), pa.schema([]))) <= 16_384


def _asked(content: bytes, end: int | None = None) -> list[tuple[int, int]]:
    store = InMemory(content)
    assert read(avro_format(store), held(content), pa.schema([]), 0, end).num_rows
    assert max(stop - start for start, stop in store.asked) <= 8 << 20
    header, *asked = store.asked
    assert header == (0, 64 << 10)
    return asked


@pytest.mark.parametrize("block_bytes", [60_000, 9 << 20])
def test_no_byte_of_a_large_chunk_is_asked_for_twice(block_bytes) -> None:
    content = avro(
        ({"pad": bytes(block_bytes)} for _ in range((20 << 20) // block_bytes)), sync_interval=1, pad="bytes"
    )
    asked = _asked(content)
    assert len(asked) == 3
    assert [start for start, _ in asked[1:]] == [stop for _, stop in asked[:-1]]


def test_little_more_than_the_last_block_of_a_chunk_is_asked_for() -> None:
    content = avro(({"pad": bytes(6 << 20)} for _ in range(3)), sync_interval=1, pad="bytes")
    asked = _asked(content, 5 << 20)
    assert asked[-1][1] < len(content) // 3 + (200 << 10)
    assert len(asked) == 3  # the chunk, the rest of the block, and the marker after it


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
    made, obj = avro_format(InMemory(content)), held(content)
    schema = made.infer([obj])
    frame = spark.read.format(SPARKS_AVRO).load(str(path))
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
    made, obj = avro_format(InMemory(content)), held(content)
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
        avro_format(InMemory(content)).infer([held(content)])
