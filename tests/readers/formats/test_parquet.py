"""Parquet objects, compared with those that pyarrow and Spark read from the same bytes."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.formats.contract import CASES, time_columns
from tests.readers.formats.files import parquet, parquet_format
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import CorruptDataError
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.formats.parquet import statistics_times
from tidegate.readers.objects.values import ChunkSurvey, TimeRange


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x" * 100 + b"\xff\x00\x00\x00PAR1", "its footer would have 263 bytes, and it has 108"),
        (b"x" * 100 + b"\x10\x00\x00\x00PAR1", "cannot be read as Parquet: "),
        (b"x" * 100 + b"\x10\x00\x00\x00PARE", "its footer is encrypted"),
        (b'{"a": 1}\n' * 10, "it does not end as Parquet does"),
    ],
)
def test_what_is_no_parquet_is_reported(content, sentence) -> None:
    store = InMemory(**{"no parquet": content})
    with pytest.raises(CorruptDataError) as error:
        parquet_format(store).survey(store.listed("no parquet"), "at")
    assert str(error.value).startswith("s3://data/no parquet ")
    assert sentence in str(error.value)


def test_int96_is_an_instant_and_is_read_for_its_times() -> None:
    moments = pa.array([5_000_001, None, -1], pa.timestamp("us"))
    content = parquet(
        pa.table({"n": [1, 2, 3], "s": pa.StructArray.from_arrays([moments], ["at"])}),
        use_deprecated_int96_timestamps=True,
    )
    store, obj = InMemory(content), held(content)
    made = parquet_format(store)
    schema = made.infer([obj])
    assert schema.field("s").type == pa.struct([("at", pa.timestamp("us", "UTC"))])
    assert made.survey(obj, "s.at") == [ChunkSurvey(0, obj.size, 3, TimeRange(-1, 5_000), 1)]
    column = read(made, obj, schema).column("s").combine_chunks()
    assert column.field("at").view(pa.int64()).to_pylist() == [5_000_001, None, -1]


@settings(max_examples=300)
@given(st.data())
def test_statistics_bound_the_times_or_do_not_tell(data: st.DataObject) -> None:
    at, unit = data.draw(time_columns(CASES["parquet"], data.draw(st.integers(1, 4))))
    metadata = pq.read_metadata(io.BytesIO(parquet(pa.table({"at": at}))))
    times = times_ms(at, unit)
    known = statistics_times(metadata, 0, 0, unit)
    if known is None:
        assert pa.types.is_string(at.type) or pa.types.is_floating(at.type) or times.null_count > at.null_count
    else:
        usable = times.drop_null().to_pylist()
        assert known == ((TimeRange(min(usable), max(usable)) if usable else None), at.null_count)


@pytest.mark.parametrize("nullable", [True, False])
def test_without_a_count_of_nulls_statistics_tell_only_of_a_column_that_has_none(nullable) -> None:
    table = pa.table([[1, 2]], pa.schema([pa.field("at", pa.int64(), nullable=nullable)]))
    schema = pq.read_metadata(io.BytesIO(parquet(table))).schema
    # Some writers do not count nulls; pyarrow always does.
    uncounted = SimpleNamespace(has_null_count=False, has_min_max=True, min_raw=1, max_raw=2, physical_type="INT64")
    group = SimpleNamespace(num_rows=2, column=lambda _: SimpleNamespace(statistics=uncounted))
    metadata = SimpleNamespace(schema=schema, row_group=lambda _: group)
    assert statistics_times(metadata, 0, 0, "ms") == (None if nullable else (TimeRange(1, 2), 0))
