"""The values of the S3 connector: objects, the chunks they are cut into, and their formats.

A *chunk* is a range of bytes of one version of an object.  It is read whole, by one task, and its event-time range was
found when it was discovered.  The chunk of a row is the one in which it begins (Hadoop: input splits).  A line belongs
to the chunk with its first byte, and a Parquet row group to the chunk with the first byte of its first page.  So the
chunks of an object that cover it without gaps give each row exactly once, whatever the format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

__all__ = ["CHUNK_SCHEMA", "Chunk", "ChunkSurvey", "ObjectFormat", "S3Object", "TimeRange"]


class S3Object(NamedTuple):
    """One version of an object, as a listing shows it.

    etag: without quotes; empty where the endpoint gives none.
    size: in bytes.
    modified_ms: LastModified, in milliseconds since the epoch; of a multipart upload its start.
    """

    key: str
    size: int
    etag: str
    modified_ms: int


class TimeRange(NamedTuple):
    """The least and the greatest event time among some rows, in ms since the epoch, both inclusive."""

    min_ms: int
    max_ms: int


class Chunk(NamedTuple):
    """A range of bytes of an object, and the rows and event times in it.

    start, end: the bytes, end exclusive.
    rows: exact if the format stores it, else an estimate of at least 1; 0 for an empty object.
    min_ms, max_ms: of its event times; None: none of its rows has one to align by.
    """

    key: str
    size: int
    etag: str
    modified_ms: int
    start: int
    end: int
    rows: int
    min_ms: int | None
    max_ms: int | None

    @property
    def source(self) -> S3Object:
        """The version of the object that it is cut from."""
        return S3Object(self.key, self.size, self.etag, self.modified_ms)


CHUNK_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("etag", pa.string(), nullable=False),
        pa.field("modified_ms", pa.int64(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("min_ms", pa.int64()),
        pa.field("max_ms", pa.int64()),
    ]
)
"""The fields of a Chunk as columns, as manifests hold many chunks."""


@dataclass(frozen=True, slots=True)
class ChunkSurvey:
    """One chunk of an object, as its format describes it.

    times: of the event-time column; None: no row has one, or there is no such column.
    rows_without_time: the number of rows without a usable time, as far as is known.
    malformed_rows: the number of further rows without one, because they are malformed (see BadRecordPolicy), as far as
        is known.
    exact: whether all rows were looked at, or counted by statistics; else some may be earlier or later, or
        without a time.
    """

    start: int
    end: int
    rows: int
    times: TimeRange | None
    rows_without_time: int = 0
    exact: bool = True
    malformed_rows: int = 0


class ObjectFormat(ABC):
    """Cuts and decodes the objects of one format.  Picklable; made on the driver and on executors."""

    @abstractmethod
    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the columns of the samples.  Called once, by the driver, when the source is loaded.

        Raises CorruptDataError for a sample that is not of this format.
        """

    @abstractmethod
    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """Cut an object into chunks that cover it without gaps, in order; none for an empty object.

        column: the event-time column, a dotted path for a nested one.  None: times are not needed, and only objects
            that are too large for one task are surveyed.

        Called on the driver once for every new object, by many threads at once.  Raises CorruptDataError, which names
        the object, if it is not of this format.  Raises ObjectGoneError if it was deleted or overwritten since, and
        ConnectorError if the other side does not answer.
        """

    def survey_together(self, founds: Sequence[S3Object], column: str | None) -> list[list[ChunkSurvey]] | None:
        """Return what ``survey`` returns for each of a few objects, if one call for all is cheaper.

        None: survey each by itself.  Called on the driver.  Raises what ``survey`` raises; the caller then surveys each
        object, to learn which one fails.
        """
        del founds, column
        return None

    @abstractmethod
    def read(self, chunk: Chunk, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, in order, as batches of ``schema`` of a bounded number of bytes.

        A column of ``schema`` that the object lacks is null; one that ``schema`` lacks is left out.
        Called on executors.  Raises what ``survey`` raises.
        """

    def read_together(self, chunks: Sequence[Chunk], schema: pa.Schema) -> list[pa.RecordBatch] | None:
        """Return what ``read`` yields for some small chunks, one after the other, if one call for all is cheaper.

        None: read each by itself, perhaps because one of them cannot be read like this; nothing was logged or written
        yet.  Called on executors.  Raises what ``survey`` raises; the caller then reads each, to learn which one fails.
        """
        del chunks, schema
        return None

    def without_writing(self) -> ObjectFormat:
        """Return a format that reads the same rows, and writes no bad records."""
        return self
