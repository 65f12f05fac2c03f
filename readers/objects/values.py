"""The values of the S3 connector: objects, the chunks they are cut into, and their formats.

A *chunk* is a range of bytes of one version of an object.  One task reads the whole chunk.  Discovery determines its
range of event times.  A row belongs to the chunk in which it begins (Hadoop: input splits).  A line begins with its
first byte, and a Parquet row group with the first byte of its first page, so chunks that cover an object without gaps
give each row exactly once, in any format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

SMALL_BYTES = 8 << 20
"""Objects up to this size are fetched whole, by one request.  Larger ones are fetched in parts of this size."""

TAIL_BYTES = 64 << 10
"""The size of the first read at the end of a larger object whose format has a footer; most footers fit in it."""

SKIP_CORRUPT = "set ignoreCorruptFiles to true to go on without it"
"""What a user can do about a corrupt object, for errors."""

SetAside: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Sets a bad record aside, which is a JSON object."""


class S3Object(NamedTuple):
    """One version of an object, as a listing shows it.

    etag: without quotes; empty if the endpoint gives none.
    modified_ms: LastModified, in ms since the epoch; a multipart upload has the time of its start.
    """

    key: str
    size: int
    etag: str
    modified_ms: int


class Bucket(Protocol):
    """The objects of one bucket, as formats see them.  Picklable."""

    bucket: str

    def address(self, key: str) -> str:
        """Return the address of an object, as errors name it."""

    def fetch(self, obj: S3Object, start: int, end: int) -> bytes:
        """Return all bytes of an object from ``start`` to ``end``, exclusive, by one request."""


class TimeRange(NamedTuple):
    """The earliest and the latest event time of some rows, in ms since the epoch, both inclusive."""

    min_ms: int
    max_ms: int


class Chunk(NamedTuple):
    """A range of bytes of an object, and the rows and event times in it.

    key, size, etag, modified_ms: the version of the object, see S3Object.
    start, end: the range in bytes, end exclusive.
    rows: the number of rows if the format stores it; else an estimate of at least 1.  0 for an empty object.
    min_ms, max_ms: the range of its event times, see TimeRange; None: no row has a time that planning counts.
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
        """The version of the object that the chunk is cut from."""
        return S3Object(self.key, self.size, self.etag, self.modified_ms)


_TEXTS, _NULLABLE = {"key", "etag"}, {"min_ms", "max_ms"}
CHUNK_SCHEMA = pa.schema(
    pa.field(name, pa.string() if name in _TEXTS else pa.int64(), nullable=name in _NULLABLE) for name in Chunk._fields
)
"""The fields of a Chunk as columns, for manifests."""


@dataclass(frozen=True, slots=True)
class ChunkSurvey:
    """One chunk of an object, as its format describes it.

    times: the range of the event-time column; None: no row has a time, or there is no such column.
    rows_without_time: the known number of rows without a usable time.
    exact: the survey read all rows, or statistics cover them.  False: some rows may be earlier, later or without a
        time.
    malformed_rows: the known number of malformed rows, which have no time either (see BadRecordPolicy); not among
        ``rows_without_time``.
    """

    start: int
    end: int
    rows: int
    times: TimeRange | None
    rows_without_time: int = 0
    exact: bool = True
    malformed_rows: int = 0


class ObjectFormat(ABC):
    """Cuts and decodes the objects of one format.  Picklable; the driver and executors use it."""

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
        the object, if it is not of this format.  Raises ObjectGoneError if the object was deleted or overwritten, and
        ConnectorError if the endpoint does not answer.
        """

    @abstractmethod
    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, in order, as batches of ``schema`` with at most 8 MiB, or with a single row.

        set_aside: takes bad records, if the options say so; None: these records are left out, and nobody keeps them.

        A column of ``schema`` that the object lacks is null.  A column of the object that ``schema`` lacks is left out.
        Called on executors.  Raises what ``survey`` raises.
        """

    def read_together(self, chunks: Sequence[Chunk], schema: pa.Schema) -> list[pa.RecordBatch] | None:
        """Return what ``read`` yields for some small chunks, one after the other, if one call for all is cheaper.

        None: the caller reads each chunk by itself, perhaps because one of them cannot be read like this.  Nothing was
        logged or written then.  Called on executors.  Raises what ``survey`` raises; the caller then reads each
        chunk, to learn which one fails.
        """
        del chunks, schema
        return None
