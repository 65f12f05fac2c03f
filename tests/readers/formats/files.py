"""Parquet and ORC objects of given tables."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

ORC_CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]


def parquet(table: pa.Table, group_rows: int | None = None, **options: Any) -> bytes:
    """Return a file, in groups of ``group_rows`` rows."""
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=group_rows, **options)
    return stream.getvalue()


def orc_file(table: pa.Table, stripe_rows: int | None = None, **options: Any) -> bytes:
    """Return a file; stripe_rows: the size of the writer's batches, each of which is a stripe."""
    stream = io.BytesIO()
    if stripe_rows is not None:
        options |= {"stripe_size": 1, "batch_size": stripe_rows}
    orc.write_table(table, stream, **options)
    return stream.getvalue()
