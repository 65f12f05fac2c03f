"""The times that statistics in the footer give."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.readers.formats.parquet.files import parquet
from tidegate.readers.formats.parquet.footer import statistics_times
from tidegate.readers.objects.values import TimeRange


@pytest.mark.parametrize("nullable", [True, False])
def test_without_a_count_of_nulls_statistics_tell_only_of_a_column_that_has_none(nullable) -> None:
    table = pa.table([[1, 2]], pa.schema([pa.field("at", pa.int64(), nullable=nullable)]))
    schema = pq.read_metadata(io.BytesIO(parquet(table))).schema
    # Some writers do not count nulls; pyarrow always does.
    uncounted = SimpleNamespace(has_null_count=False, has_min_max=True, min_raw=1, max_raw=2, physical_type="INT64")
    group = SimpleNamespace(num_rows=2, column=lambda _: SimpleNamespace(statistics=uncounted))
    metadata = SimpleNamespace(schema=schema, row_group=lambda _: group)
    assert statistics_times(metadata, 0, 0, "ms") == (None if nullable else (TimeRange(1, 2), 0))
