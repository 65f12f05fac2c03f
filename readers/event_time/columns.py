"""The event times of a column: which types hold them, what a survey tallies, which rows are in a range.

Times are in milliseconds since the epoch, rounded down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import are_null, int64_values, integers
from tidegate.readers.arrow.conform import conform, plain, plain_type, position_of
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.event_time.policy import ALSO_BEFORE_1970, NO_TIME, EventTimePolicy, Times, int64_times
from tidegate.readers.event_time.units import TimeUnit, limit_of, number_times, text_times
from tidegate.readers.objects.values import ChunkSurvey, TimeRange

DAY_MS = 86_400_000
_NS_PER = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NS_PER_MS = 10**6
_TEXTS = {pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()}


def check_time_type(column: str, kind: pa.DataType, unit: TimeUnit | None) -> None:
    """Raise OptionError, which names the column, unless values of this type are times by this unit.

    Dates, and timestamps of any unit and zone, have their own unit and take no other.  Integers and floats need s, ms,
    us or ns.  Texts need one of these, or iso8601.
    """
    kind = plain_type(kind)
    if kinds.is_null(kind):
        return
    subject = f"the column {column!r} of type {ddl_of(kind)}"
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        if unit is not None:
            raise OptionError(f"eventTimeUnit is {unit!r}, but {subject} has its own unit")
        return
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        if unit is None or unit == "iso8601":
            clause = "is not given" if unit is None else f"is {unit!r}"
            raise OptionError(f"eventTimeUnit {clause}, but {subject} needs s, ms, us or ns")
        return
    if kind in _TEXTS:
        if unit is None:
            raise OptionError(f"eventTimeUnit is not given, but {subject} needs s, ms, us, ns or iso8601")
        return
    raise OptionError(f"the column {column!r} is of type {ddl_of(kind)}, which holds no event time")


def check_time_width(column: str, kind: pa.DataType, unit: TimeUnit | None) -> None:
    """Raise OptionError, which names the column, if a type of numbers is too narrow for event times.

    A column of an object may have such a type.  A column of the schema may not, since other times would become null, or
    would be rounded by up to a minute.
    """
    is_integer = kinds.is_integer(kind)
    if (is_integer or kinds.is_floating(kind)) and unit is not None:
        wanted = pa.float64() if not is_integer else pa.int32() if unit == "s" else pa.int64()
        if kind.bit_width < wanted.bit_width:
            raise OptionError(
                f"the column {column!r} is of type {ddl_of(kind)}, too narrow for event times in {unit}; "
                f"{ddl_of(wanted)} is needed"
            )


def times_ms(values: pa.Array, unit: TimeUnit | None) -> pa.Int64Array:
    """Return the times of ``values`` in milliseconds, rounded down; null for a value that is missing or not a time.

    A timestamp without a zone is UTC.  A number counts from the epoch; see text_times for texts.

    Raises OptionError if values of this type and unit are not times; see check_time_type.
    """
    check_time_type("of the event time", values.type, unit)
    values = plain(values)
    kind = values.type
    if kinds.is_null(kind):
        return pa.nulls(len(values), pa.int64())
    if unit is None:
        return _own_times(values)
    if kinds.is_uint64(kind):
        values = pc.if_else(pc.less(values, pa.scalar(2**63, kind)), values, pa.scalar(None, kind))
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return number_times(values.cast(pa.int64() if kinds.is_integer(kind) else pa.float64()), unit)
    return text_times(values if kinds.is_binary(kind) else values.cast(pa.string()), unit)


def _own_times(values: pa.Array) -> pa.Int64Array:
    kind = values.type
    missing = are_null(values)
    if kinds.is_date32(kind):
        return integers(int64_values(values.view(pa.int32()).cast(pa.int64())) * DAY_MS, pa.int64(), missing)
    numbers = np.where(missing, 0, int64_values(values))
    per = _NS_PER["ms" if kinds.is_date64(kind) else kind.unit]
    if per <= _NS_PER_MS:
        return integers(numbers // (_NS_PER_MS // per), pa.int64(), missing)
    limit = limit_of("s") * 1000  # times below this limit fit into an int64 in milliseconds
    beyond = (numbers >= limit) | (numbers <= -limit)
    return integers(np.where(beyond, 0, numbers) * (per // _NS_PER_MS), pa.int64(), missing | beyond)


def path_of(column: str, fields: Sequence[pa.Field]) -> list[int] | None:
    """Return the indices that a dotted path names; a column whose name is the whole path comes first."""
    names = [field.name for field in fields]
    whole = position_of(column, names)
    if whole is not None:
        return [whole]
    name, _, remainder = column.partition(".")
    index = position_of(name, names) if remainder else None
    if index is None:
        return None
    kind = plain_type(fields[index].type)
    inner = path_of(remainder, list(kind)) if kinds.is_struct(kind) else None
    return None if inner is None else [index, *inner]


def _values_of(column: str, batch: pa.RecordBatch) -> pa.Array | None:
    """Return the values at a dotted path; None: the rows have no such column."""
    path = path_of(column, list(batch.schema))
    return None if path is None else pc.struct_field(batch.to_struct_array(), path)


class TimeTally:
    """The event times of the rows that a survey has read so far, and the size of these rows in the object."""

    def __init__(self) -> None:
        self.rows = 0
        self.rows_without_time = 0
        self.malformed_rows = 0
        self.bytes = 0
        self.times: TimeRange | None = None

    def add_times(self, times: pa.Int64Array, malformed: int = 0) -> None:
        """Add rows.

        times: in ms since the epoch; null for a row without one.
        malformed: the number of further rows, which need no time.
        """
        self.rows += len(times) + malformed
        self.malformed_rows += malformed
        self.rows_without_time += times.null_count
        if times.null_count < len(times):
            seen = pc.min_max(times).as_py()
            before = self.times or TimeRange(seen["min"], seen["max"])
            self.times = TimeRange(min(before.min_ms, seen["min"]), max(before.max_ms, seen["max"]))

    def survey(self, start: int, end: int, rows: int | None = None) -> ChunkSurvey:
        """Return the survey of a chunk, which has an estimated number of rows unless all were read."""
        survey = ChunkSurvey(
            start, end, self.rows, self.times, self.rows_without_time, malformed_rows=self.malformed_rows
        )
        return survey if rows is None else replace(survey, rows=rows, exact=False)


@dataclass(frozen=True, slots=True)
class SeenTimes:
    """Takes the event times of a column from the rows of a survey.

    column: a dotted path.
    schema: the columns that a read gives; None: rows stay as they are.
    """

    column: str
    unit: TimeUnit | None
    schema: pa.Schema | None = None

    def add(self, tally: TimeTally, batch: pa.RecordBatch) -> None:
        """Add rows to a tally.

        Raises OptionError unless the column holds times by its unit.  Without the column, no row has a time.
        """
        if self.schema is not None:
            batch = conform(batch, self.schema)
        values = _values_of(self.column, batch)
        if values is None:
            values = pa.nulls(batch.num_rows)
        check_time_type(self.column, values.type, self.unit)
        tally.add_times(times_ms(values, self.unit))


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
        low, high = self._limits(times)
        return TimeRange(low, high) if low <= high else None

    def narrowed(self, times: TimeRange) -> TimeRange:
        """Return the times in both ranges; without any, the nearest time of the wanted range or of the rows."""
        low, high = self._limits(times)
        return TimeRange(min(low, high), high)

    def _limits(self, times: TimeRange) -> tuple[int, int]:
        low = times.min_ms if self.start_ms is None else max(times.min_ms, self.start_ms)
        return low, times.max_ms if self.end_ms is None else min(times.max_ms, self.end_ms - 1)

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

        Whether a time is in the future depends on LastModified, so the result is the same whenever the object is read.

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
        values: Any = _values_of(self.column, batch)
        return int64_times(times_ms(values, self._unit_of(values.type)))

    def _unit_of(self, kind: pa.DataType) -> TimeUnit | None:
        if self.unit in self.parsed and (kinds.is_timestamp(kind) or kinds.is_date(kind)):
            return None
        return "iso8601" if self.unit is None and kinds.is_string(kind) else self.unit
