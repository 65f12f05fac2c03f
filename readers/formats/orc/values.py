"""Converts the values of ORC as Spark's reader does (OrcUtils, OrcFileFormat).

A timestamp without a zone is a wall-clock time in the writer's zone, and Spark reads it as an instant.  Spark writes a
TimestampNTZ as an integer, which the type's attributes mark.  Dates and times before 1582-10-15 are in the Julian
calendar, unless the object declares the Gregorian one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.conform import mask_of, offsets_of

_ATTRIBUTE = b"spark.sql.catalyst.type"
_ORC_EPOCH = datetime(2015, 1, 1)  # noqa: DTZ001 - timestamps count from this time in the writer's zone
_ONE_MS = 999_999  # in nanoseconds
_FIRST_GREGORIAN_DAY = -141_427
_JULIAN_DAY = 2_440_588  # the Julian day number of 1970-01-01


def zone_shift_s(zone: str) -> int:
    """Return the seconds to add to timestamps of a zone that were read as UTC.

    Raises CorruptDataError for a zone that this machine does not know.
    """
    try:
        at = _ORC_EPOCH.replace(tzinfo=ZoneInfo(zone))
    except (LookupError, ValueError, OSError):
        raise CorruptDataError(f"it was written in the time zone {zone!r}, which this machine does not know") from None
    return int((at - _ORC_EPOCH.replace(tzinfo=timezone.utc)).total_seconds())


@dataclass(frozen=True, slots=True)
class OrcValues:
    """Converts values to Spark's: shifts timestamps without a zone, and turns Julian dates."""

    shift_s: int
    julian: bool

    def converted(self, values: pa.Array, field: pa.Field) -> pa.Array:
        """Return values of a field in Spark's type; the fields in its type have the attributes of nested types."""
        if not self._concerns(field):
            return values
        stored, wanted = field.type, spark_type(field)
        if kinds.is_struct(stored):
            parts = [self.converted(values.field(index), stored.field(index)) for index in range(stored.num_fields)]
            return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask_of(values))
        if kinds.is_map(stored):
            entry = pa.struct([stored.key_field, stored.item_field])
            values = values.view(pa.list_(pa.field("entries", entry, nullable=False)))
            entries = values.flatten()
            parts = [self.converted(entries.field(index), entry.field(index)) for index in range(2)]
            return pa.MapArray.from_arrays(offsets_of(values), *parts, type=wanted, mask=mask_of(values))
        if kinds.is_nested(stored):
            items = self.converted(values.flatten(), stored.value_field)
            return pa.ListArray.from_arrays(offsets_of(values), items, type=wanted, mask=mask_of(values))
        if kinds.is_date(stored):
            return _gregorian(values)
        if kinds.is_timestamp(stored):
            values = self._shifted(values)
        return values.view(wanted)

    def _shifted(self, clock: pa.Array) -> pa.Array:
        if not self.shift_s or clock.type.tz is not None:
            return clock
        seconds, nanos = np.divmod(clock.view(pa.int64()).fill_null(0).to_numpy(), 10**9)
        # Before 1970, the seconds are one less if the fraction is more than a millisecond (ORC-763).
        late = nanos > _ONE_MS
        seconds += late & (seconds < 0)
        seconds += self.shift_s
        seconds -= late & (seconds < 0)
        return pa.array(seconds * 10**9 + nanos, mask=np.asarray(clock.is_null()))

    def _concerns(self, field: pa.Field) -> bool:
        if kinds.is_nested(field.type):
            return any(self._concerns(field.type.field(index)) for index in range(field.type.num_fields))
        return (self.julian and bool(kinds.is_date(field.type))) or bool(spark_type(field) != field.type)


def spark_type(field: pa.Field) -> pa.DataType:
    """Return Spark's type of a field, which attributes or ORC's own rules may change."""
    kind = field.type
    if kinds.is_struct(kind):
        return pa.struct([_as_spark(child) for child in kind])
    if kinds.is_map(kind):
        return pa.map_(_as_spark(kind.key_field), _as_spark(kind.item_field))
    if kinds.is_list(kind):
        return pa.list_(_as_spark(kind.value_field))
    if kinds.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    is_local = kinds.is_int64(kind) and (field.metadata or {}).get(_ATTRIBUTE) == b"timestamp_ntz"
    return pa.timestamp("us") if is_local else kind


def _as_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, spark_type(field), field.nullable)


def _gregorian(dates: pa.Array) -> pa.Array:
    """Return the days whose Gregorian dates are the Julian dates of these days; days since 1582-10-15 stay."""
    days = dates.view(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
    old = days < _FIRST_GREGORIAN_DAY
    if not old.any():
        return dates
    # Richards' algorithm, in the Explanatory Supplement to the Astronomical Almanac.
    shifted = days + _JULIAN_DAY + 32_082
    year = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * year // 4
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5
    months = (year - 4800 - 1970) * 12 + month + 2
    named = (months.astype("datetime64[M]").astype("datetime64[D]") + day).astype(np.int64)
    gregorian = np.where(old, named, days).astype(np.int32)
    return pa.array(gregorian, mask=np.asarray(dates.is_null())).view(dates.type)
