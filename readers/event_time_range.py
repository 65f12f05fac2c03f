"""A range of event times that is to be read: which chunks can hold rows of it, and which rows are in it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tidegate.errors import OptionError
from tidegate.readers.column_times import check_time_type, check_time_width, times_ms
from tidegate.readers.event_time import BadEventTime
from tidegate.readers.event_time_units import TimeUnit
from tidegate.readers.objects import TimeRange
from tidegate.readers.seen_times import path_of

__all__ = ["ALL_TIMES", "EventTimeRange", "RowTimes"]


@dataclass(frozen=True, slots=True)
class EventTimeRange:
    """Times in ms since the epoch.

    start_ms: inclusive; None: from the beginning.
    end_ms: exclusive; None: to the end.
    """

    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether it leaves anything out."""
        return self.start_ms is not None or self.end_ms is not None

    def common(self, times: TimeRange) -> TimeRange | None:
        """Return the times that lie in both; None: there are none."""
        low = times.min_ms if self.start_ms is None else max(times.min_ms, self.start_ms)
        high = times.max_ms if self.end_ms is None else min(times.max_ms, self.end_ms - 1)
        return TimeRange(low, high) if low <= high else None

    def narrowed(self, times: TimeRange) -> TimeRange:
        """Return what the times of some rows of a chunk tell of others in it that lie in the range."""
        high = times.max_ms if self.end_ms is None else min(times.max_ms, self.end_ms - 1)
        low = times.min_ms if self.start_ms is None else max(times.min_ms, self.start_ms)
        return TimeRange(min(low, high), high)

    def has(self, times: pa.Int64Array) -> pa.BooleanArray:
        """Tell of each time whether it lies in the range; a null does not."""
        inside = times.is_valid()
        if self.start_ms is not None:
            inside = pc.and_(inside, pc.greater_equal(times, self.start_ms).fill_null(fill_value=False))
        if self.end_ms is not None:
            inside = pc.and_(inside, pc.less(times, self.end_ms).fill_null(fill_value=False))
        return inside


ALL_TIMES = EventTimeRange()


@dataclass(frozen=True, slots=True)
class RowTimes:
    """Keeps the rows whose event times lie in a range.

    column: that holds them, a dotted path for a nested one.
    unit: of a column of numbers or texts; texts without one are ISO 8601.
    bad: with ``record-timestamp`` LastModified stands in for rows without a usable time, which else lie in no range.
    """

    wanted: EventTimeRange
    column: str
    unit: TimeUnit | None = None
    bad: BadEventTime = "fail"

    def check(self, schema: pa.Schema) -> None:
        """Raise OptionError unless the schema has the column, as one that holds the times of now."""
        path = path_of(self.column, list(schema))
        if path is None:
            raise OptionError(
                f"startingTimestamp or endingTimestamp is set, so the column {self.column!r} has to be among the "
                "columns that are read"
            )
        kind: pa.DataType = functools.reduce(
            lambda outer, place: outer.field(place).type, path, pa.struct(list(schema))
        )
        check_time_type(self.column, kind, self._unit_of(kind))
        check_time_width(self.column, kind, self.unit)

    def kept(self, batch: pa.RecordBatch, modified_ms: int) -> pa.RecordBatch:
        """Return the rows that lie in the range.

        batch: of a schema that ``check`` takes.
        modified_ms: LastModified of the object that they are from.
        """
        values = pc.struct_field(batch.to_struct_array(), path_of(self.column, list(batch.schema)))
        times = times_ms(values, self._unit_of(values.type))
        if self.bad == "record-timestamp":
            times = times.fill_null(modified_ms)
        inside = self.wanted.has(times)
        return batch if inside.true_count == len(inside) else batch.filter(inside)

    def _unit_of(self, kind: pa.DataType) -> TimeUnit | None:
        if self.unit == "iso8601" and (kinds.is_timestamp(kind) or kinds.is_date(kind)):
            return None  # the texts were read as such
        return "iso8601" if self.unit is None and kinds.is_string(kind) else self.unit
