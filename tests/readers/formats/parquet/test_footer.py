"""The times that statistics in the footer give."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.formats.contract import CASES, time_columns
from tests.readers.formats.files import parquet
from tidegate.readers.event_time.columns import times_ms
from tidegate.readers.formats.parquet.footer import statistics_times
from tidegate.readers.objects.values import TimeRange


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
