"""ORC objects of given tables."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from pyarrow import orc

CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]


def orc_file(table: pa.Table, stripe_rows: int | None = None, **options: Any) -> bytes:
    """Return a file.

    stripe_rows: the size of the writer's batches, each of which is a stripe.
    """
    stream = io.BytesIO()
    if stripe_rows is not None:
        options |= {"stripe_size": 1, "batch_size": stripe_rows}
    orc.write_table(table, stream, **options)
    return stream.getvalue()
