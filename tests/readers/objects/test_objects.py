"""Files of ranges have the bytes of their object, and partition columns are those of Spark's file source."""

from __future__ import annotations

import io
from datetime import date, datetime, timezone
from decimal import Decimal
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.partitions import NULL_VALUE, partition_fields, partition_scalar, partition_texts


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(1, 9), st.data())
def test_a_file_of_held_and_other_ranges_is_the_object(content: bytes, part: int, data: st.DataObject) -> None:
    size = len(content)
    spans = st.tuples(st.integers(0, size), st.integers(0, size)).map(lambda span: tuple(sorted(span)))
    oracle = io.BytesIO(content)
    with ObjectFile(size, lambda start, end: content[start:end], part) as file:
        for _ in range(data.draw(st.integers(0, 3))):
            file.hold(data.draw(st.lists(spans, max_size=3)))
            for _ in range(data.draw(st.integers(0, 3))):
                position, count = data.draw(st.tuples(st.integers(0, size + 2), st.integers(-1, size + 2)))
                assert file.seek(position) == oracle.seek(position)
                assert file.read(count) == oracle.read(count)
                assert file.tell() == oracle.tell()


def test_a_held_range_is_asked_for_once_in_parts() -> None:
    asked: list[tuple[int, int]] = []

    def fetch(start: int, end: int) -> bytes:
        asked.append((start, end))
        return bytes(range(start, end))

    with ObjectFile(100, fetch, 10) as file:
        file.hold([(5, 25), (40, 45)])
        file.hold([(5, 25), (60, 70)])
        file.seek(5)
        assert file.read(20) == bytes(range(5, 25))
        file.seek(58)
        assert file.read(4) == bytes(range(58, 62))
    asked.sort()
    assert [span for span in asked if span != (40, 45)] == [(5, 15), (15, 25), (58, 60), (60, 70)]


UTC = timezone.utc
VALUES = [
    ["1", "2", "-3"],
    ["007", "+5", "0"],
    ["1", "2147483648", NULL_VALUE],
    ["9223372036854775807", "-9223372036854775808", "1"],
    ["9223372036854775808", "1", "1"],
    ["9223372036854775808", "99999999999999999999999999999999999999", "5000000000"],
    ["999999999999999999999999999999999999999", "1", "1"],
    ["1e3", "1", "1"],
    ["1.5", "1", "-2.25"],
    ["1.5", "5000000000", "1"],
    ["1.5", "1e3", "1"],
    ["1.0", ".5", "5."],
    ["1.5e-3", "1.5d", "2f"],
    ["NaN", "Infinity", "-Infinity"],
    ["2026-01-31", "2026-02-28", NULL_VALUE],
    ["2026-02-30", "2026-02-28", "2026-02-28"],
    ["2026-1-3", "2026-01-03", "2026-01-03"],
    ["2026-01", "2026-02", "2026-03"],
    ["2026-01-31 10%3A20%3A30", "2026-01-31 00%3A00%3A00.5", "2026-01-31 00%3A00%3A00"],
    ["2026-01-31 10%3A20%3A30.12", "2026-01-31 00%3A00%3A00", "2026-01-31 00%3A00%3A00"],
    ["2026-01-31T10%3A20%3A30", "2026-01-31 1%3A20%3A30", "2026-01-31 24%3A00%3A00"],
    ["2026-01-31 10%3A20%3A30", "2026-01-31", NULL_VALUE],
    ["2026-01-31 10%3A20", "2026-01-31", "2026-01-31"],
    ["2026-01-31", "1", "1"],
    ["true", "false", "true"],
    ["a b", "c%2Fd%3De", "%zz+%25"],
    ["x=y", "=", "=="],
    ["1_000", "1", "1"],
    ["0x10", "1", "1"],
]


def inferred(keys: list[str], *, typed: bool = True) -> tuple[list[pa.Field], list[list[object]]]:
    texts = [partition_texts(key, "in/") for key in keys]
    fields = partition_fields(texts, typed=typed)
    return fields, [[partition_scalar(folders.get(f.name), f, "s3://b/k").as_py() for f in fields] for folders in texts]


def test_names_types_and_values_are_those_of_sparks_own_source(spark, tmp_path):
    keys = []
    for number in range(3):
        folders = "/".join(f"c{column:02}={values[number]}" for column, values in enumerate(VALUES))
        keys.append(f"in/{folders}/{number}.txt")
        file = tmp_path / keys[-1]
        file.parent.mkdir(parents=True)
        file.write_text(f"{number}\n")
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    for typed in (True, False):
        spark.conf.set(setting, str(typed).lower())
        try:
            theirs = spark.read.text(str(tmp_path / "in")).orderBy("value").toArrow()
        finally:
            spark.conf.unset(setting)
        fields, rows = inferred(keys, typed=typed)
        assert [(f.name, f.type) for f in fields] == [(f.name, f.type) for f in theirs.schema][1:]
        assert repr(rows) == repr([list(row.values())[1:] for row in theirs.to_pylist()])


names = st.text("ab =%/", min_size=1, max_size=3)


@given(st.lists(st.tuples(names, names), max_size=4, unique_by=lambda pair: pair[0]))
def test_escaped_names_and_values_come_back_in_their_order(pairs):
    folders = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs]
    assert [*partition_texts("/".join(["in", *folders, "x.json"]), "in/").items()] == pairs


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("in/x.json", {}),
        ("a=1/in/x.json", {}),
        ("in/a=1/b=2/x=3.json", {"a": "1", "b": "2"}),
        ("in/a=1/year/b=2/x.json", {"b": "2"}),
        ("in/a=1/parts/more/x.json", {"a": "1"}),
        ("in/a=/=1/b=2/x.json", {"b": "2"}),
        ("in/city=K%C3%B6ln/x.json", {"city": "Köln"}),
    ],
)
def test_folders_are_read_upwards_from_the_last_up_to_the_prefix(key, columns):
    assert partition_texts(key, "a=1/in/" if key.startswith("a=1/in/") else "in/") == columns


def test_columns_come_in_the_order_in_which_they_are_met_and_nothing_but_nulls_are_strings():
    folders = [{"b": None, "a": "1"}, {"c": "x", "b": None}]
    assert partition_fields(folders, typed=True) == [
        pa.field("b", pa.string()),
        pa.field("a", pa.int32()),
        pa.field("c", pa.string()),
    ]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.string(), "7"),
        ("-128", pa.int8(), -128),
        ("2026", pa.date32(), date(2026, 1, 1)),
        ("2026-01-31", pa.timestamp("us", "UTC"), datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T01:00:00+01:00", pa.timestamp("us", "UTC"), datetime(2026, 1, 31, tzinfo=UTC)),
        ("1.50", pa.decimal128(10, 2), Decimal("1.50")),
        ("1" * 36, pa.decimal128(38, 2), Decimal("1" * 36)),
        ("TRUE", pa.bool_(), True),
        ("é", pa.binary(), "é".encode()),
        (None, pa.int64(), None),
    ],
)
def test_a_column_may_be_given_another_type(text, kind, value):
    assert partition_scalar(text, pa.field("c", kind), "s3://b/k").as_py() == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("128", pa.int8()),
        ("1.0", pa.int64()),
        ("", pa.int64()),
        ("x", pa.float64()),
        ("1.505", pa.decimal128(10, 2)),
        ("1" * 37, pa.decimal128(38, 2)),
        ("2026-02-30", pa.date32()),
        ("yes", pa.bool_()),
        ("1", pa.list_(pa.int64())),
    ],
)
def test_a_value_that_does_not_fit_is_reported_by_object_and_column(text, kind):
    with pytest.raises(CorruptDataError) as raised:
        partition_scalar(text, pa.field("c", kind), "s3://b/k")
    assert str(raised.value) == f"s3://b/k: its path has no {ddl_of(kind)} in 'c'"


def test_a_null_that_the_schema_does_not_allow_is_refused():
    with pytest.raises(CorruptDataError, match="has a null in 'c'"):
        partition_scalar(None, pa.field("c", pa.int64(), nullable=False), "s3://b/k")
