"""The column ``_metadata``: the object and the block that a row is from."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa

from tidegate.readers.objects.values import Chunk

__all__ = ["METADATA", "metadata_scalar"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

METADATA = pa.field(
    "_metadata",
    pa.struct(
        [
            ("file_path", pa.string()),
            ("file_name", pa.string()),
            ("file_size", pa.int64()),
            ("file_block_start", pa.int64()),
            ("file_block_length", pa.int64()),
            ("file_modification_time", pa.timestamp("us", "UTC")),
        ]
    ),
)
"""The column, whose fields are those of Spark's file sources; a block is a chunk, and sizes are in bytes."""


def metadata_scalar(chunk: Chunk, address: str) -> pa.Scalar:
    """Return the column's value for the rows of a chunk.

    address: of the object.  Unlike Spark's, it is the key as it is, without escapes.
    """
    return pa.scalar(
        {
            "file_path": address,
            "file_name": chunk.key.rpartition("/")[2],
            "file_size": chunk.size,
            "file_block_start": chunk.start,
            "file_block_length": chunk.end - chunk.start,
            "file_modification_time": _EPOCH + timedelta(milliseconds=chunk.modified_ms),
        },
        METADATA.type,
    )
