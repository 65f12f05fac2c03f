"""Turns dates and times of the Julian calendar into the Gregorian one, which Spark has used since version 3.

Hive, and Spark before version 3, wrote days before 1582-10-15 by Java's old calendar.  Read as Gregorian days, they are
up to ten days off (Spark: RebaseDateTime).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.conform import mask_of, offsets_of, retyped

FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since the epoch."""

_JULIAN_DAY = 2_440_588  # the Julian day number of 1970-01-01
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_UTC = {"", "UTC", "Etc/UTC", "GMT", "Z", "+00:00"}
_CLOCKS_AGREE_DAY = -25_567  # 1900-01-01: since then, the old and the new library agree on all time zones


def holds_times(kind: pa.DataType) -> bool:
    """Return whether values of a type are, or hold, dates or timestamps."""
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind)) or any(map(holds_times, inner))


def gregorian(values: pa.Array, zone: str = "UTC", *, dates: bool = True, timestamps: bool = True) -> pa.Array:
    """Return the dates and timestamps in an array, also nested ones, as Spark reads them; others stay.

    zone: the writer's time zone, which the old library also took for timestamps before 1900.
    dates, timestamps: which of them to turn.

    Raises CorruptDataError for such a timestamp of another zone than UTC.
    """
    kind = values.type
    if kinds.is_date32(kind):
        return _turned(values, 1) if dates else values
    if kinds.is_timestamp(kind):
        if timestamps and kind.tz is not None and zone not in _UTC:
            _require_after(values, zone)
        return _turned(values, _PER_DAY[kind.unit]) if timestamps else values
    if not holds_times(kind):
        return values
    if kinds.is_struct(kind):
        parts = [
            gregorian(values.field(place), zone, dates=dates, timestamps=timestamps) for place in range(kind.num_fields)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask_of(values))
    if kinds.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        values = retyped(values, pa.list_(pa.field("entries", entry, nullable=False)))
        entries = gregorian(values.flatten(), zone, dates=dates, timestamps=timestamps)
        return pa.MapArray.from_arrays(
            offsets_of(values), entries.field(0), entries.field(1), type=kind, mask=mask_of(values)
        )
    items = gregorian(values.flatten(), zone, dates=dates, timestamps=timestamps)
    of_list = pa.LargeListArray if kinds.is_large_list(kind) else pa.ListArray
    return of_list.from_arrays(offsets_of(values), items, type=kind, mask=mask_of(values))


def _turned(values: pa.Array, per_day: int) -> pa.Array:
    stored = pa.int32() if per_day == 1 else pa.int64()
    numbers = values.view(stored).fill_null(0).to_numpy()
    if not (numbers < FIRST_GREGORIAN_DAY * per_day).any():
        return values
    days, rest = np.divmod(numbers, per_day)
    turned = np.where(days < FIRST_GREGORIAN_DAY, _named_days(days), days) * per_day + rest
    return pa.array(turned.astype(numbers.dtype), mask=np.asarray(values.is_null())).view(values.type)


def _named_days(days: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the days whose Gregorian dates are the Julian dates of these days.

    By Richards' algorithm, in the Explanatory Supplement to the Astronomical Almanac.
    """
    shifted = days.astype(np.int64) + _JULIAN_DAY + 32_082
    year = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * year // 4
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5
    months = (year - 4800 - 1970) * 12 + month + 2
    named: npt.NDArray[np.int64] = (months.astype("datetime64[M]").astype("datetime64[D]") + day).astype(np.int64)
    return named


def _require_after(values: pa.Array, zone: str) -> None:
    first = pc.min(values.view(pa.int64())).as_py()
    if first is not None and first < _CLOCKS_AGREE_DAY * _PER_DAY[values.type.unit]:
        raise CorruptDataError(
            f"it has timestamps before 1900 in the Julian calendar and the time zone {zone!r}; write it again by Spark "
            "3 or newer, which reads them by spark.sql.parquet.datetimeRebaseModeInRead or its like"
        )
