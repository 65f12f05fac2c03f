"""The base of formats whose objects declare the types of their columns: Parquet, ORC and Avro."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tidegate.errors import BadRecordError, CorruptDataError, OptionError, OutOfMemoryError
from tidegate.readers.arrow.conform import conform, position_of, spark_schema, surely_fits
from tidegate.readers.event_time.range import TimeColumn
from tidegate.readers.event_time.seen import SeenTimes, path_of
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.row_groups import CHUNK_BYTES, within_bounds
from tidegate.readers.objects.values import SMALL_BYTES, Bucket, Chunk, ObjectFormat, S3Object, SetAside


class TypedObject(ABC):
    """An object that was opened.

    fields: its columns, in order.
    """

    fields: Sequence[pa.Field]

    @abstractmethod
    def spark_schema(self) -> pa.Schema:
        """Return the columns in the types of Spark's own reader."""

    @abstractmethod
    def rows(self, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that begin in a range.

        places: the indices of the columns that batches have, by the names in ``fields``.  If there are none, a batch
            has the right number of rows.
        """


@dataclass(frozen=True)
class TypedFormat(ObjectFormat):
    """Objects that declare the types of their columns; the schema of a query may name other types.

    unit: the unit of an event-time column of numbers or texts.
    chunk_bytes: the maximum size of a chunk, at least 1.
    read_times: the event-time column as it is read, if rows are selected by it.  A survey then has the times of the
        rows that ``read`` yields.  None: rows are not selected.
    """

    store: Bucket
    unit: TimeUnit | None = None
    chunk_bytes: int = CHUNK_BYTES
    read_times: TimeColumn | None = None

    named: ClassVar[str] = ""
    """The name of the format in errors."""

    @abstractmethod
    def opened(self, obj: S3Object, *, whole: bool = False) -> AbstractContextManager[TypedObject]:
        """Read the header or the footer of an object; ``whole``: fetch all of it by the same request."""

    def schema_of(self, obj: S3Object) -> pa.Schema:
        """Return the columns of an object that is not empty."""
        with self.decoding(obj), self.opened(obj) as opened:
            return opened.spark_schema()

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """See ObjectFormat.read."""
        del set_aside  # no row is bad: a value that does not fit ends the query
        obj = chunk.source
        with self.decoding(obj), self.opened(obj, whole=obj.size <= SMALL_BYTES) as opened:
            names = [field.name for field in opened.fields]
            found = [position_of(field.name, names) for field in schema]
            for batch in opened.rows(chunk.start, chunk.end, sorted({place for place in found if place is not None})):
                yield from within_bounds(conform(batch, schema))

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the columns of the samples, in Spark's types; columns that only later samples have come last.

        Raises OptionError if all samples are empty, if two disagree on a type, and for a type that Spark cannot hold.
        """
        schemas = [spark_schema(self.schema_of(sample)) for sample in samples if sample.size]
        if not schemas:
            bucket = self.store.bucket
            raise OptionError(f"no object of s3://{bucket} holds bytes to infer a schema from; give a schema")
        try:
            return spark_schema(pa.unify_schemas(schemas, promote_options="permissive"))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
            raise OptionError(f"the objects disagree on the type of a column; give a schema: {problem}") from None

    @contextmanager
    def decoding(self, obj: S3Object) -> Iterator[None]:
        """Add an object's address to errors of decoding.

        Raises CorruptDataError for an error of Arrow, an OSError and a UnicodeDecodeError.  Raises an error of the same
        class for a BadRecordError, a CorruptDataError and an OutOfMemoryError.  Other errors pass, and so do Arrow's
        errors of memory and cancellation.
        """
        address = self.store.address(obj.key)
        try:
            yield
        except (BadRecordError, CorruptDataError, OutOfMemoryError) as problem:
            if str(problem).startswith(address):
                raise
            raise type(problem)(f"{address} cannot be read: {problem}") from None
        except (pa.ArrowMemoryError, pa.ArrowCancelled):
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            raise CorruptDataError(f"{address} is no {self.named} that can be read: {problem}") from problem

    @property
    def time_unit(self) -> TimeUnit | None:
        """The unit of event times."""
        return self.unit if self.read_times is None else self.read_times.unit

    def time_place(self, column: str, fields: Sequence[pa.Field]) -> int | None:
        """Return the index of the event-time column among the fields of an object."""
        if self.read_times is not None:
            return position_of(self.read_times.field.name, [field.name for field in fields])
        path = path_of(column, fields)
        return None if path is None else path[0]

    def may_misfit(self, kind: pa.DataType) -> bool:
        """Return whether reading a column of this type may change times, so that a survey has to read each row."""
        return self.read_times is not None and not surely_fits(kind, self.read_times.field.type)

    def seen_times(self, column: str) -> SeenTimes:
        """Return what takes the event times from the rows of an object."""
        times = self.read_times
        if times is None:
            return SeenTimes(column, self.unit)
        return SeenTimes(column, times.unit, pa.schema([times.field]))
