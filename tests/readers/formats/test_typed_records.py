"""Rows of typed formats whose columns are not of the schema's types, under each policy."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.formats.refusals import TO_CONTINUE
from tests.support.objects.arrow_tables import arrays, fields
from tests.support.objects.memory import Memory, chunk_of, writing_to
from tidegate.errors import BadRecordError
from tidegate.readers.arrow import conform as conform_module
from tidegate.readers.arrow.conform import conform, conform_each
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy
from tidegate.readers.formats.typed_records import fitted

PERMISSIVE = BadRecordPolicy("PERMISSIVE", rescued_column=None)
RESCUED = BadRecordPolicy(rescued_column="rest")
REST = pa.field("rest", pa.string())


def fit(batch: pa.RecordBatch, schema: pa.Schema, policy: BadRecordPolicy) -> list[dict]:
    obj, write = Memory(b"").object, writing_to(policy.path)
    with policy.of_chunk(obj.key, chunk_of(obj, 0, 0), schema, write, record="row") as records:
        rows = fitted(records, batch, 4)
    assert rows.schema.equals(schema)
    rows.validate(full=True)
    return rows.to_pylist()


def is_whole(text: str | None) -> bool:
    return text is None or (text.removeprefix("-").isdecimal() and text.isascii() and abs(int(text)) < 2**31)


texts = st.lists(st.none() | st.text("-12x", max_size=3) | st.integers(-(2**33), 2**33).map(str), max_size=20)


@given(texts)
def test_values_that_fit_are_cast_and_others_are_null_and_reported(given_texts):
    batch = pa.record_batch({"c": pa.array(given_texts, pa.string()), "n": range(len(given_texts))})
    schema = pa.schema([("c", pa.int32()), ("n", pa.int64())])
    values, misfits = conform_each(batch, schema)
    fits = [is_whole(text) for text in given_texts]
    assert values.column("c").to_pylist() == [
        int(text) if text is not None and fit else None for text, fit in zip(given_texts, fits, strict=True)
    ]
    assert values.column("n").to_pylist() == [*range(len(given_texts))]
    assert misfits.keys() <= {"c"}
    assert misfits.get("c", [False] * len(fits)) == pytest.approx([not fit for fit in fits])


@given(st.data())
def test_where_all_fits_nothing_differs_from_conform(data):
    field = data.draw(fields())
    batch = pa.record_batch([data.draw(arrays(field.type))], schema=pa.schema([field]))
    values, misfits = conform_each(batch, batch.schema)
    assert values.equals(conform(batch, batch.schema))
    assert not misfits


def test_an_impossible_type_makes_all_but_nulls_misfits_at_once(monkeypatch):
    tried, converted = [], conform_module._converted
    monkeypatch.setattr(conform_module, "_converted", lambda *given: tried.append(given) or converted(*given))
    batch = pa.record_batch({"c": pa.array([1, None, *range(1000)])})
    values, misfits = conform_each(batch, pa.schema([("c", pa.list_(pa.int64()))]))
    assert values.column("c").null_count == 1002
    assert misfits["c"].tolist() == [True, False, *[True] * 1000]
    assert len(tried) == 2


GIVEN = pa.record_batch(
    {
        "c": ["1", "x", None],
        "more": [None, Decimal("1.50"), None],
        "none": [None, None, []],
        "r": [{"a": 1, "b": b"\xff"}, {"a": 2, "b": None}, None],
        "l": [[{"x": 1, "y": 2}], [], None],
    }
)
WANTED = pa.schema(
    [
        ("c", pa.int64()),
        ("r", pa.struct([("a", pa.int64())])),
        ("l", pa.list_(pa.struct([("x", pa.int64())]))),
        ("missing", pa.string()),
    ]
)
ROWS = [
    {"c": 1, "r": {"a": 1}, "l": [{"x": 1}], "missing": None},
    {"c": None, "r": {"a": 2}, "l": [], "missing": None},
    {"c": None, "r": None, "l": None, "missing": None},
]


def test_a_changed_type_ends_the_query_by_default():
    with pytest.raises(
        BadRecordError,
        match=r"^the column 'c' is of the type string, and not every value of it is a int64" + TO_CONTINUE + "$",
    ):
        fit(GIVEN, WANTED, FAIL)


def test_what_does_not_fit_is_null_and_the_row_stands_among_corrupt_records_if_they_are_asked_for():
    assert fit(GIVEN, WANTED, PERMISSIVE) == ROWS
    corrupt = fit(GIVEN, WANTED.append(pa.field("_corrupt_record", pa.string())), PERMISSIVE)
    assert [{name: row[name] for name in WANTED.names} for row in corrupt] == ROWS
    assert [row["_corrupt_record"] and json.loads(row["_corrupt_record"]) for row in corrupt] == [
        None,
        {"c": "x", "more": "1.50", "none": None, "r": {"a": 2, "b": None}, "l": []},
        None,
    ]


def test_rows_with_what_does_not_fit_are_dropped_or_written_aside(tmp_path):
    assert fit(GIVEN, WANTED, BadRecordPolicy("DROPMALFORMED")) == [ROWS[0], ROWS[2]]
    assert fit(GIVEN, WANTED, BadRecordPolicy(path=str(tmp_path))) == [ROWS[0], ROWS[2]]
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_text())["reason"] == "the row has no int64 in 'c'"


def test_surplus_is_rescued_also_of_nested_columns():
    rows = fit(GIVEN, WANTED.append(REST), RESCUED)
    assert [{name: row[name] for name in WANTED.names} for row in rows] == ROWS
    assert [row["rest"] and json.loads(row["rest"]) for row in rows] == [
        {"r": {"b": "/w=="}, "l": [{"y": 2}], "_file_path": "a/b.json"},
        {"c": "x", "more": "1.50", "_file_path": "a/b.json"},
        {"none": [], "_file_path": "a/b.json"},
    ]
