"""Text objects, cut into chunks at any byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.errors import OptionError
from tidegate.readers.arrow.conform import batch_of
from tidegate.readers.formats.line_objects import LineObject, survey_lines
from tidegate.readers.formats.line_ranges import LineBlock, fetched_ahead
from tidegate.readers.formats.row_groups import within_bounds
from tidegate.readers.objects.values import Bucket, Chunk, ChunkSurvey, ObjectFormat, S3Object, SetAside
from tidegate.readers.plain_text import unified, utf8

BLOCK_BYTES = 8 << 20
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
        blocks = item.blocks(chunk.start, chunk.end, BLOCK_BYTES)
        if chunk.end - chunk.start > BLOCK_BYTES:
            blocks = fetched_ahead(blocks)
        for block in blocks:
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
