"""Text objects, cut into chunks at any byte unless each object is a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.arrow.conform import batch_of
from tidegate.readers.decompression import DEFAULT_MOST_BYTES, SizeLimit, about
from tidegate.readers.formats.line_objects import LineObject, survey_lines
from tidegate.readers.formats.line_ranges import LineBlock, fetched_ahead
from tidegate.readers.formats.row_groups import within_bounds
from tidegate.readers.objects.values import Chunk, ChunkSurvey, ObjectFormat, S3Object, WriteFile
from tidegate.readers.plain_text import UTF_8, unified, utf8
from tidegate.readers.s3.store import ObjectStore

__all__ = ["TextFormat"]

BLOCK_BYTES = 8 << 20
LONGEST_TEXT = 2**31 - 1  # the maximum size of a value in Arrow and Spark, in bytes
VALUE = "value"


@dataclass(frozen=True, slots=True)
class TextFormat(ObjectFormat):
    r"""Reads text as Spark does, plain or compressed, into the column ``value``.

    store: has the objects.
    wholetext: each object is one row.  False: each line is one row, even if it is blank; ``\n``, ``\r\n`` and ``\r``
        end lines.
    encoding: Python's name of the encoding, by check_encoding.
    chunk_bytes: the maximum size of a chunk, at least 1.
    most_bytes: the maximum decompressed size of a compressed object that is one row.

    Plain objects are cut at any byte; a line belongs to the chunk that holds its first byte.  Compressed objects (by
    their suffix: .gz, .zst, .bz2, .lz4), and objects that are one row, are one chunk each.
    """

    store: ObjectStore
    wholetext: bool = False
    encoding: str = UTF_8
    chunk_bytes: int = 64 << 20
    most_bytes: int = DEFAULT_MOST_BYTES

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the column ``value``, whatever the samples hold."""
        del samples
        return pa.schema([(VALUE, pa.string())])

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """Cut an object into even chunks of at most ``chunk_bytes``, without a request; rows are estimated.

        Raises OptionError for an event-time column: text has none.
        """
        if column is not None:
            raise OptionError(f"eventTime names the column {column!r}, but text has no column of times")
        if self.wholetext:
            return [ChunkSurvey(0, obj.size, 1, None)] if obj.size else []
        return survey_lines(LineObject(self.store, obj), None, self.chunk_bytes)

    def read(self, chunk: Chunk, schema: pa.Schema, write: WriteFile | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a chunk, or the object, as the one column of ``schema``, whatever its name.

        A batch holds at most 8 MiB, unless a single row is larger.

        Raises CorruptDataError, which names the object, for a line of more than 256 MiB or a row of 2 GiB.  Raises
        OptionError unless ``schema`` has one column of strings, or none.
        """
        del write  # no record is bad
        if len(schema) > 1 or not all(pa.types.is_string(field.type) for field in schema):
            columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
            raise OptionError(f"text has one column, of strings, and not {columns}")
        item = LineObject(self.store, chunk.source)
        if self.wholetext:
            yield _batch(pa.array([self._whole(item)], pa.binary()).view(pa.string()), schema)
            return
        blocks = item.blocks(chunk.start, chunk.end, BLOCK_BYTES)
        if chunk.end - chunk.start > BLOCK_BYTES:
            blocks = fetched_ahead(blocks)
        for block in blocks:
            yield from within_bounds(_batch(self._lines(block), schema))

    def _lines(self, block: LineBlock) -> pa.StringArray:
        text = utf8(unified(block.data), self.encoding)
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        joined = text.replace(b"\n", b"")
        # Each line end that is left out moves the lines after it by one byte.
        offsets = [np.zeros(1, np.int64), ends - np.arange(len(ends))]
        if not text.endswith(b"\n"):
            offsets.append(np.array([len(joined)]))
        starts = np.concatenate(offsets).astype(np.int32)
        return pa.StringArray.from_buffers(len(starts) - 1, pa.py_buffer(starts), pa.py_buffer(joined))

    def _whole(self, item: LineObject) -> bytes:
        pieces, size = [], 0
        for piece in item.pieces(BLOCK_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > LONGEST_TEXT:
                raise CorruptDataError(f"{item.name}: it is longer than 2 GiB, which no row can hold")
            if item.codec is not None:
                with about(item.name):
                    SizeLimit(self.most_bytes, "maxDecompressedBytes").require(size)
        return utf8(b"".join(pieces), self.encoding)


def _batch(texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
    return batch_of([texts] * len(schema), schema, len(texts))
