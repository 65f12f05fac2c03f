"""Selects the chunks and the rows of a range of event times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.event_time.columns import check_time_type, check_time_width, times_ms
from tidegate.readers.event_time.policy import ALSO_BEFORE_1970, NO_TIME, EventTimePolicy, Times, int64_times
from tidegate.readers.event_time.seen import path_of
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.objects.values import TimeRange


@dataclass(frozen=True, slots=True)
class EventTimeRange:
    """A range of times in ms since the epoch, from the start to before the end."""

    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the range has a limit."""
        return self.start_ms is not None or self.end_ms is not None

    def common(self, times: TimeRange) -> TimeRange | None:
        """Return the times in both ranges."""
        low = times.min_ms if self.start_ms is None else max(times.min_ms, self.start_ms)
        high = times.max_ms if self.end_ms is None else min(times.max_ms, self.end_ms - 1)
        return TimeRange(low, high) if low <= high else None

    def narrowed(self, times: TimeRange) -> TimeRange:
        """Return the times in both ranges; if there are none, the nearest time of the wanted range or of the rows."""
        high = times.max_ms if self.end_ms is None else min(times.max_ms, self.end_ms - 1)
        low = times.min_ms if self.start_ms is None else max(times.min_ms, self.start_ms)
        return TimeRange(min(low, high), high)

    def has(self, times: Times) -> npt.NDArray[np.bool_]:
        """Return for each time whether it is in the range; NO_TIME is not."""
        inside: npt.NDArray[np.bool_] = times != NO_TIME
        if self.start_ms is not None:
            inside &= times >= self.start_ms
        if self.end_ms is not None:
            inside &= times < self.end_ms
        return inside


ALL_TIMES = EventTimeRange()


class TimeColumn(NamedTuple):
    """The event-time column as it is read.

    field: the column among those that are read.
    names: the names of the column, and of the fields that lead to the times.
    unit: the unit of the values; None: the type has one.
    """

    field: pa.Field
    names: tuple[str, ...]
    type: pa.DataType
    unit: TimeUnit | None

    def times(self, values: pa.Array) -> pa.Int64Array:
        """Return the times of values of the type, in ms since the epoch; null for values that are not times."""
        return times_ms(values, self.unit)


@dataclass(frozen=True, slots=True)
class RowTimes:
    """Keeps the rows whose event times are in a range.

    column: the column of the times, a dotted path for a nested one.
    unit: the unit of a column of numbers or texts; texts without a unit are ISO 8601.
    policy: decides whether rows without a usable time have LastModified instead.  If not, they are in no range.
    parsed: the units of values that the format itself reads into timestamps or dates; such a column has its own unit.
    """

    wanted: EventTimeRange
    column: str
    unit: TimeUnit | None = None
    policy: EventTimePolicy = ALSO_BEFORE_1970
    parsed: Sequence[TimeUnit] = ("iso8601",)

    def column_of(self, schema: pa.Schema) -> TimeColumn | None:
        """Return the column of a schema; None: the schema lacks it."""
        path = path_of(self.column, list(schema))
        if path is None:
            return None
        fields: list[pa.Field] = []
        for place in path:
            fields.append((fields[-1].type if fields else pa.struct(list(schema))).field(place))
        kind = fields[-1].type
        return TimeColumn(fields[0], tuple(field.name for field in fields), kind, self._unit_of(kind))

    def check(self, schema: pa.Schema) -> None:
        """Raise OptionError unless the schema has the column, with a type that holds times of today."""
        column = self.column_of(schema)
        if column is None:
            raise OptionError(
                f"startingTimestamp or endingTimestamp is set, so the column {self.column!r} has to be among the "
                "columns that are read"
            )
        check_time_type(self.column, column.type, column.unit)
        check_time_width(self.column, column.type, self.unit)

    def kept(self, batch: pa.RecordBatch, modified_ms: int) -> pa.RecordBatch:
        """Return the rows in the range; the object's LastModified may stand in for their times."""
        own = self._own(batch)
        # Refused rows have ended the query already, when the object was discovered.
        inside = self.wanted.has(self.policy.without_bad(own, np.full_like(own, modified_ms)).times)
        return batch if inside.all() else batch.filter(pa.array(inside))

    def times(self, batch: pa.RecordBatch, modified_ms: int) -> pa.Int64Array:
        """Return the event times of rows in ms since the epoch; null for rows without a usable one.

        Whether a time is in the future depends on LastModified.  So the result is the same whenever the object is read.

        Raises OptionError if the column is not among those that are read.
        """
        if path_of(self.column, list(batch.schema)) is None:
            raise OptionError(
                f"watermark generators need the column {self.column!r}, the event time, among the columns that are read"
            )
        own = self._own(batch)
        usable = self.policy.judge(own, np.full_like(own, modified_ms), self.policy.horizon(modified_ms)).times
        return pa.array(usable, mask=usable == NO_TIME)

    def _own(self, batch: pa.RecordBatch) -> Times:
        values = pc.struct_field(batch.to_struct_array(), path_of(self.column, list(batch.schema)))
        return int64_times(times_ms(values, self._unit_of(values.type)))

    def _unit_of(self, kind: pa.DataType) -> TimeUnit | None:
        if self.unit in self.parsed and (kinds.is_timestamp(kind) or kinds.is_date(kind)):
            return None
        return "iso8601" if self.unit is None and kinds.is_string(kind) else self.unit
