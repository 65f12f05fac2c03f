"""Reads objects of any content, each as a row (Spark: BinaryFileFormat)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.conform import conform
from tidegate.readers.objects.values import (
    SMALL_BYTES,
    Bucket,
    Chunk,
    ChunkSurvey,
    ObjectFormat,
    S3Object,
    SetAside,
    TimeRange,
)

BINARY_FILE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("modificationTime", pa.timestamp("us", "UTC")),
        ("length", pa.int64()),
        ("content", pa.binary()),
    ]
)
"""The columns of Spark's reader."""

LARGEST = 2**31 - 1  # the maximum size of a value in Arrow and Spark, in bytes


@dataclass(frozen=True, slots=True)
class BinaryFileFormat(ObjectFormat):
    """Reads each object as a row of its path, LastModified, length and content, which stays compressed."""

    store: Bucket

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the columns of every object."""
        del samples
        return BINARY_FILE_SCHEMA

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """Return one chunk, without a request; none for an empty object, which Spark leaves out, too.

        column: only ``modificationTime`` has times, see FormatFactory.
        """
        times = None if column is None else TimeRange(obj.modified_ms, obj.modified_ms)
        return [ChunkSurvey(0, obj.size, 1, times)] if obj.size else []

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the row of an object; its content is fetched only if ``schema`` has it.

        Raises CorruptDataError, which names the object, for a content of 2 GiB or more.
        """
        del set_aside  # no record is bad
        obj = chunk.source
        address = self.store.address(obj.key)
        content = None
        if "content" in map(str.lower, schema.names):
            if obj.size > LARGEST:
                raise CorruptDataError(f"{address}: it is longer than 2 GiB, which no row can hold")
            starts = range(0, obj.size, SMALL_BYTES)
            content = b"".join([self.store.fetch(obj, start, min(start + SMALL_BYTES, obj.size)) for start in starts])
        values = [address, obj.modified_ms * 1000, obj.size, content]
        arrays = [pa.array([value], field.type) for value, field in zip(values, BINARY_FILE_SCHEMA, strict=True)]
        yield conform(pa.RecordBatch.from_arrays(arrays, schema=BINARY_FILE_SCHEMA), schema)
