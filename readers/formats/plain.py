"""Formats whose columns are always the same: text, a row for each line, and binary files, a row for each object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.arrow.arrays import within_bounds
from tidegate.readers.arrow.conform import batch_of, conform
from tidegate.readers.formats.lines import BLOCK_BYTES, LineBlock, LineObject, survey_lines
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
from tidegate.readers.plain_text import unified, utf8

VALUE = "value"


@dataclass(frozen=True, slots=True)
class TextFormat(ObjectFormat):
    r"""Reads text as Spark does, plain or compressed, into the column ``value``.

    chunk_bytes: the maximum size of a chunk, at least 1.

    Each line is one row, even if it is blank; ``\n``, ``\r\n`` and ``\r`` end lines; see LineObject.
    """

    store: Bucket
    chunk_bytes: int = 64 << 20

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the column ``value``, whatever the samples hold."""
        del samples
        return pa.schema([(VALUE, pa.string())])

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """Cut an object into even chunks of at most ``chunk_bytes``, without a request; rows are estimated."""
        del column  # text has none with times, see FormatFactory
        return survey_lines(LineObject(self.store, obj), None, self.chunk_bytes)

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a chunk as the one column of ``schema``, whatever its name.

        Raises CorruptDataError, which names the object, for a line of more than 256 MiB.  Raises OptionError unless
        ``schema`` has one column of strings, or none.
        """
        del set_aside  # no record is bad
        if len(schema) > 1 or not all(pa.types.is_string(field.type) for field in schema):
            columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
            raise OptionError(f"text has one column, of strings, and not {columns}")
        item = LineObject(self.store, chunk.source)
        for block in item.chunk_blocks(chunk, BLOCK_BYTES):
            lines = _lines(block)
            yield from within_bounds(batch_of([lines] * len(schema), schema, len(lines)))


def _lines(block: LineBlock) -> pa.StringArray:
    text = utf8(unified(block.data))
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    joined = text.replace(b"\n", b"")
    # Each line end that is left out moves the lines after it by one byte.
    offsets = [np.zeros(1, np.int64), ends - np.arange(len(ends))]
    if not text.endswith(b"\n"):
        offsets.append(np.array([len(joined)]))
    starts = np.concatenate(offsets).astype(np.int32)
    return pa.StringArray.from_buffers(len(starts) - 1, pa.py_buffer(starts), pa.py_buffer(joined))


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
        """Return one chunk, without a request; none for an empty object, which Spark also leaves out.

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
