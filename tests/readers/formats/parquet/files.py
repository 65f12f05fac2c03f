"""Parquet objects of given tables."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def parquet(table: pa.Table, group_rows: int | None = None, **options: Any) -> bytes:
    """Return a file, in groups of ``group_rows`` rows."""
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=group_rows, **options)
    return stream.getvalue()
