"""Formats whose objects declare the types of their columns: Parquet, ORC and Avro."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from tidegate.errors import BadRecordError, CorruptDataError, OptionError, OutOfMemoryError
from tidegate.readers.arrow.arrays import MOST_ROWS, within_bounds
from tidegate.readers.arrow.conform import conform, position_of, spark_schema, surely_fits
from tidegate.readers.decompression import is_lack_of_memory
from tidegate.readers.event_time.columns import SeenTimes, TimeColumn, TimeTally, path_of
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.surveys import CHUNK_BYTES, GroupTimes, RowGroup, group_surveys
from tidegate.readers.objects.values import SMALL_BYTES, Bucket, Chunk, ChunkSurvey, ObjectFormat, S3Object, SetAside

_LOG = logging.getLogger("tidegate.reader")
ESTIMATED_ROW_BYTES = 64


class SurveyedColumn(NamedTuple):
    """The event-time column of a survey.

    name: a dotted path.
    unit: the unit of numbers or texts.
    read: the column as it is read, if rows are selected by it; the survey then has the times of the rows that are read.
    """

    name: str
    unit: TimeUnit | None
    read: TimeColumn | None

    def place(self, fields: Sequence[pa.Field]) -> int | None:
        """Return the index of the column among the fields of an object."""
        if self.read is not None:
            return position_of(self.read.field.name, [field.name for field in fields])
        path = path_of(self.name, fields)
        return None if path is None else path[0]

    def may_misfit(self, kind: pa.DataType) -> bool:
        """Return whether reading a column of this type may change times, so that a survey has to read each row."""
        return self.read is not None and not surely_fits(kind, self.read.field.type)

    def seen(self) -> SeenTimes:
        """Return what takes the event times from rows."""
        schema = None if self.read is None else pa.schema([self.read.field])
        return SeenTimes(self.name, self.unit, schema)


class TypedObject(Protocol):
    """An object whose header or footer was read.

    fields: its columns, in order, in the types in which its rows come.
    """

    fields: Sequence[pa.Field]

    def spark_schema(self) -> pa.Schema:
        """Return the columns in the types of Spark's own reader."""

    def surveys(self, column: SurveyedColumn | None, chunk_bytes: int) -> list[ChunkSurvey]:
        """Cut the object into chunks; see ObjectFormat.survey."""

    def rows(self, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that begin in a range.

        places: the indices of the columns that batches have, by the names in ``fields``.  Without any, a batch
            has the right number of rows.
        """


OpenObject: TypeAlias = Callable[..., AbstractContextManager[TypedObject]]
"""Takes a bucket and an object, and reads its header or footer; ``whole``: all of it, by the same request."""


@dataclass(frozen=True)
class TypedFormat(ObjectFormat):
    """Objects that declare the types of their columns; the schema of a query may name other types.

    opener: opens an object of the format.  Picklable.
    named: the name of the format in errors.
    unit: the unit of an event-time column of numbers or texts.
    chunk_bytes: the maximum size of a chunk, at least 1.
    read_times: the event-time column as it is read, if rows are selected by it.  A survey then has the times of the
        rows that ``read`` yields.  None: rows are not selected.
    """

    store: Bucket
    opener: OpenObject
    named: str
    unit: TimeUnit | None = None
    chunk_bytes: int = CHUNK_BYTES
    read_times: TimeColumn | None = None

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the columns of the samples, in Spark's types; columns that only later samples have come last.

        Raises OptionError if all samples are empty, if two disagree on a type, and for a type that Spark cannot hold.
        """
        schemas = []
        for sample in samples:
            if sample.size:
                with self._opened(sample) as opened:
                    schemas.append(spark_schema(opened.spark_schema()))
        if not schemas:
            bucket = self.store.bucket
            raise OptionError(f"no object of s3://{bucket} holds bytes to infer a schema from; give a schema")
        try:
            return spark_schema(pa.unify_schemas(schemas, promote_options="permissive"))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
            raise OptionError(f"the objects disagree on the type of a column; give a schema: {problem}") from None

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey.  Without a column, an object up to ``chunk_bytes`` is not read."""
        if not obj.size:
            return []
        if column is None and obj.size <= self.chunk_bytes:
            return [ChunkSurvey(0, obj.size, max(1, obj.size // ESTIMATED_ROW_BYTES), None)]
        unit = self.unit if self.read_times is None else self.read_times.unit
        wanted = None if column is None else SurveyedColumn(column, unit, self.read_times)
        with self._opened(obj) as opened:
            return opened.surveys(wanted, self.chunk_bytes)

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """See ObjectFormat.read.  A warning names an object that has none of the columns, whose rows are null."""
        del set_aside  # no row is bad: a value that does not fit ends the query
        obj = chunk.source
        with self._opened(obj, whole=obj.size <= SMALL_BYTES) as opened:
            names = [field.name for field in opened.fields]
            found = {position_of(field.name, names) for field in schema} - {None}
            if len(schema) and not found and chunk.start == 0:
                columns = ", ".join(schema.names)
                _LOG.warning("%s has none of the columns %s: its rows are null", self.store.address(obj.key), columns)
            for batch in opened.rows(chunk.start, chunk.end, sorted(place for place in found if place is not None)):
                yield from within_bounds(conform(batch, schema))

    @contextmanager
    def _opened(self, obj: S3Object, *, whole: bool = False) -> Iterator[TypedObject]:
        """Open an object, and add its address to errors of decoding while the context lasts.

        Raises CorruptDataError for an error of Arrow, an OSError and a UnicodeDecodeError, or OutOfMemoryError if a
        codec lacked memory.  Raises an error of the same class for a BadRecordError, a CorruptDataError and an
        OutOfMemoryError.  Other errors pass, and so do Arrow's errors of memory and cancellation.
        """
        address = self.store.address(obj.key)
        try:
            with self.opener(self.store, obj, whole=whole) as opened:
                yield opened
        except (BadRecordError, CorruptDataError, OutOfMemoryError) as problem:
            if str(problem).startswith(address):
                raise
            raise type(problem)(f"{address} cannot be read: {problem}") from None
        except (pa.ArrowMemoryError, pa.ArrowCancelled):
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            if is_lack_of_memory(problem):
                raise OutOfMemoryError(f"{address} {OutOfMemoryError()}") from None
            raise CorruptDataError(f"{address} cannot be read as {self.named}: {problem}") from problem


class GroupedObject(TypedObject):
    """An object that consists of groups of rows.

    groups: the groups with rows, in order.
    size: the size of the object in bytes.

    A chunk has successive groups; a group that is larger than a chunk is a chunk of its own.
    """

    groups: Sequence[RowGroup]
    size: int

    @abstractmethod
    def decoded(self, groups: Sequence[RowGroup], places: Sequence[int]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """Yield the rows of some groups, with the columns at some places, of which there is one at least."""

    def times_decoded(
        self, groups: Sequence[RowGroup], column: str, place: int
    ) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """Yield what ``decoded`` does, at least what a dotted path names of the column at a place."""
        del column
        return self.decoded(groups, [place])

    def known_times(self, column: str, unit: TimeUnit | None) -> dict[RowGroup, GroupTimes]:
        """Return the times of groups that are known without reading them.

        Raises OptionError unless the column holds times by its unit.
        """
        del column, unit
        return {}

    def surveys(self, column: SurveyedColumn | None, chunk_bytes: int) -> list[ChunkSurvey]:
        """See TypedObject.surveys.  The column of the times is read, unless the format knows them."""
        times: list[GroupTimes] = [(None, 0)] * len(self.groups) if column is None else self._times(column)
        return group_surveys(self.groups, times, self.size, chunk_bytes)

    def _times(self, column: SurveyedColumn) -> list[GroupTimes]:
        place = column.place(self.fields)
        if place is None:
            return [(None, group.rows) for group in self.groups]
        misfits = column.may_misfit(self.fields[place].type)
        known = {} if misfits else self.known_times(column.name, column.unit)
        times, tallies = column.seen(), {group: TimeTally() for group in self.groups}
        unknown = [group for group in self.groups if group not in known]
        if unknown:
            decoded = self.decoded(unknown, [place]) if misfits else self.times_decoded(unknown, column.name, place)
            for group, batch in decoded:
                times.add(tallies[group], batch)
        return [known.get(group, (tally.times, tally.rows_without_time)) for group, tally in tallies.items()]

    def rows(self, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """See TypedObject.rows."""
        mine = [group for group in self.groups if start <= group.start < end]
        if places:
            yield from (batch for _, batch in (self.decoded(mine, places) if mine else ()))
            return
        for group in mine:
            for at in range(0, group.rows, MOST_ROWS):
                yield pa.record_batch([pa.nulls(min(MOST_ROWS, group.rows - at))], [""])
