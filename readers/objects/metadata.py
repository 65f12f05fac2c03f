"""The column ``_metadata``: the object and the chunk of a row."""

from __future__ import annotations

import pyarrow as pa

from tidegate.readers.objects.values import Chunk

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
"""The column, with the fields of Spark's file sources.  A block is a chunk; starts, lengths and sizes are in bytes."""


def metadata_scalar(chunk: Chunk, address: str) -> pa.Scalar:
    """Return the column's value for the rows of a chunk; a key has no escapes, unlike in Spark."""
    return pa.scalar(
        {
            "file_path": address,
            "file_name": chunk.key.rpartition("/")[2],
            "file_size": chunk.size,
            "file_block_start": chunk.start,
            "file_block_length": chunk.end - chunk.start,
            "file_modification_time": chunk.modified_ms * 1000,
        },
        METADATA.type,
    )
