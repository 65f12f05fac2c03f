"""Turns dates and times of the Julian calendar into the Gregorian one, which Spark has used since version 3.

Hive, and Spark before version 3, wrote days before 1582-10-15 by Java's old calendar.  Read as Gregorian days, they are
up to ten days off (Spark: RebaseDateTime).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.conform import mask_of, offsets_of, retyped

FIRST_GREGORIAN_DAY = -141_427  # 1582-10-15
_JULIAN_DAY = 2_440_588  # the Julian day number of 1970-01-01
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_UTC = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00"}
_CLOCKS_AGREE_DAY = -25_567  # 1900-01-01: since then, the old and the new library agree on all time zones
_COLUMNS_OF_SPARK = "org.apache.spark.sql.parquet.row.metadata"
CLOCKS_AGREE_MS = _CLOCKS_AGREE_DAY * _PER_DAY["ms"]
"""Times since then are the same in both calendars, and in all time zones."""

Turns: TypeAlias = Callable[[pa.DataType], bool]
"""Returns whether values of a type of dates or timestamps are in the Julian calendar."""


class LegacyTimes(NamedTuple):
    """The values of an object that Spark wrote in the Julian calendar.

    own: dates and timestamps.
    int96: the timestamps of Parquet's type INT96.
    zone: the writer's time zone.
    """

    own: bool
    int96: bool
    zone: str

    def modern(self, batch: pa.RecordBatch, int96: Container[str] = ()) -> pa.RecordBatch:
        """Return rows in the Gregorian calendar.

        int96: the columns that are of this type; a timestamp without a zone is an instant in them, and none elsewhere.

        Raises CorruptDataError for a timestamp that cannot be turned, see ``gregorian``.
        """
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            turns = kinds.is_timestamp if name in int96 else _is_date_or_instant
            is_old = self.int96 if name in int96 else self.own
            columns.append(gregorian(column, turns, self.zone) if is_old else column)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema) if columns else batch


def legacy_times(keys: Mapping[str, bytes]) -> LegacyTimes | None:
    """Return what is in the Julian calendar, by the keys in a footer or header (Spark: DataSourceUtils)."""
    version = keys.get("org.apache.spark.version")
    if version is None:  # Spark 2 wrote only its columns, and Spark itself would shift the values
        return LegacyTimes(own=True, int96=True, zone="unknown") if _COLUMNS_OF_SPARK in keys else None
    own = version < b"3.0.0" or "org.apache.spark.legacyDateTime" in keys
    int96 = version < b"3.1.0" or "org.apache.spark.legacyINT96" in keys
    zone = keys.get("org.apache.spark.timeZone", b"UTC").decode(errors="replace")
    return LegacyTimes(own, int96, zone) if own or int96 else None


def _is_date_or_instant(kind: pa.DataType) -> bool:
    return bool(kinds.is_date(kind) or (kinds.is_timestamp(kind) and kind.tz is not None))


def gregorian(values: pa.Array, turns: Turns, zone: str = "UTC") -> pa.Array:
    """Return the dates and timestamps in an array, also nested ones, as Spark reads them; others stay.

    zone: the writer's time zone, by which the old library also read timestamps before 1900.

    Raises CorruptDataError for such a timestamp of another zone than UTC.
    """
    kind = values.type
    if not _turns(kind, turns):
        return values
    if kinds.is_date32(kind):
        return _turned(values, 1)
    if kinds.is_timestamp(kind):
        return _turned(values if zone in _UTC else _recent(values, zone), _PER_DAY[kind.unit])
    if kinds.is_struct(kind):
        parts = [gregorian(values.field(place), turns, zone) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask_of(values))
    if kinds.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        values = retyped(values, pa.list_(pa.field("entries", entry, nullable=False)))
        entries = gregorian(values.flatten(), turns, zone)
        return pa.MapArray.from_arrays(
            offsets_of(values), entries.field(0), entries.field(1), type=kind, mask=mask_of(values)
        )
    items = gregorian(values.flatten(), turns, zone)
    of_list = pa.LargeListArray if kinds.is_large_list(kind) else pa.ListArray
    return of_list.from_arrays(offsets_of(values), items, type=kind, mask=mask_of(values))


def _turns(kind: pa.DataType, turns: Turns) -> bool:
    return turns(kind) or any(_turns(kind.field(number).type, turns) for number in range(kind.num_fields))


def _turned(values: pa.Array, per_day: int) -> pa.Array:
    stored = pa.int32() if per_day == 1 else pa.int64()
    numbers = values.view(stored).fill_null(0).to_numpy()
    if not (numbers < FIRST_GREGORIAN_DAY * per_day).any():
        return values
    days, remainder = np.divmod(numbers, per_day)
    turned = np.where(days < FIRST_GREGORIAN_DAY, _named_days(days), days) * per_day + remainder
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


def _recent(values: pa.Array, zone: str) -> pa.Array:
    first = pc.min(values.view(pa.int64())).as_py()
    if first is not None and first < _CLOCKS_AGREE_DAY * _PER_DAY[values.type.unit]:
        raise CorruptDataError(
            f"it has timestamps before 1900, which Spark wrote in the Julian calendar and the time zone {zone!r}; "
            "write it again by Spark 3 or newer, without its legacy mode"
        )
    return values
