"""The base of formats whose objects declare the types of their columns: Parquet, ORC and Avro."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.readers.arrow.conform import position_of, surely_fits
from tidegate.readers.event_time.range import TimeColumn
from tidegate.readers.event_time.seen import SeenTimes, path_of
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy
from tidegate.readers.formats.row_groups import CHUNK_BYTES
from tidegate.readers.formats.typed_records import fitted
from tidegate.readers.objects.values import Chunk, ObjectFormat, S3Object
from tidegate.readers.s3.store import ObjectStore

__all__ = ["TypedFormat"]


@dataclass(frozen=True)
class TypedFormat(ObjectFormat):
    """Objects that declare the types of their columns; the schema of a query may name other types.

    store: has the objects.
    unit: the unit of an event-time column of numbers or texts.
    chunk_bytes: the maximum size of a chunk, at least 1.
    bad_records: the policy for rows with values that are not of their columns' types.
    read_times: the event-time column as it is read, if rows are selected by it.  A survey then has the times of the
        rows that ``read`` yields.  None: rows are not selected.
    """

    store: ObjectStore
    unit: TimeUnit | None = None
    chunk_bytes: int = CHUNK_BYTES
    bad_records: BadRecordPolicy = FAIL
    read_times: TimeColumn | None = None

    @property
    def time_unit(self) -> TimeUnit | None:
        """The unit of event times."""
        return self.unit if self.read_times is None else self.read_times.unit

    def time_place(self, column: str, fields: Sequence[pa.Field]) -> int | None:
        """Return the index of the event-time column among the fields of an object; None: it is not there."""
        if self.read_times is not None:
            return position_of(self.read_times.field.name, [field.name for field in fields])
        path = path_of(column, fields)
        return None if path is None else path[0]

    def may_misfit(self, kind: pa.DataType) -> bool:
        """Return whether reading a column of this type may change times, so that a survey has to read each row."""
        return self.read_times is not None and not surely_fits(kind, self.read_times.field.type)

    def seen_times(self, obj: S3Object, column: str) -> SeenTimes:
        """Return a new SeenTimes, which collects the event times of an object's rows."""
        times = self.read_times
        if times is None:
            return SeenTimes(column, self.unit)
        chunk = Chunk(*obj, 0, obj.size, 0, None, None)
        address, schema = self.store.address(obj.key), pa.schema([times.field])
        records = self.bad_records.of_survey.of_chunk(address, chunk, schema, record="row")
        return SeenTimes(column, times.unit, functools.partial(fitted, records))
