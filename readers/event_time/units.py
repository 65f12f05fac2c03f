"""Converts numbers and texts to milliseconds since the epoch, exactly and rounded down.

Other values are null.  A number is a time only in a unit, so the unit is fixed beforehand and never guessed
row by row.  Whole columns are converted at once.  No value raises an error, and none overflows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.readers.arrow import compute as pc

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns", "iso8601"]

LARGEST_MS = (2**63 - 1) // 1000
"""The largest time that a timestamp in microseconds holds."""

# A number is detected in the unit in which it is a time from February 1970 to the year 2128.
_DETECTED_BELOW: dict[TimeUnit, int] = {"s": 5 * 10**9, "ms": 5 * 10**12, "us": 5 * 10**15, "ns": 5 * 10**18}
# Conversion goes on to the year 33658 (ns: 2262), because 9999-12-31 often means "for ever".  Up to there, a double
# holds every millisecond.  A time of today in the next smaller unit is beyond the limit.
_LIMITS: dict[TimeUnit, int] = {"s": 10**12, "ms": 10**15, "us": 10**18, "ns": 2**63}
_PER_MS: dict[TimeUnit, int] = {"ms": 1, "us": 1_000, "ns": 1_000_000}

_WHOLE = "(?:-?[0-9]{1,18}|[1-8][0-9]{18})"  # fits into an int64
_ZERO = "-?0+(?:[.]0*)?(?:[eE][+-]?[0-9]{1,3})?"
_NUMBER = r"-?[0-9]+(?:[.][0-9]*)?(?:[eE][+-]?[0-9]{1,3})?"
_ISO8601 = (
    "(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12][0-9]|3[01])"
    "(?:[Tt ](?P<hour>[01][0-9]|2[0-3])(?::(?P<minute>[0-5][0-9])"
    "(?::(?P<second>[0-5][0-9])(?:[.,](?P<fraction>[0-9]{1,3})[0-9]*)?)?)?"
    "(?:[Zz]|(?P<sign>[+-])(?P<zone_hour>[01][0-9]|2[0-3])(?::?(?P<zone_minute>[0-5][0-9]))?)?)?"
)


def detect_unit(values: Iterable[object]) -> TimeUnit | None:
    """Return the unit of the first usable value, or None without one.

    A text in the form of ISO 8601 has the unit "iso8601".  A number, or a text that is one, is judged by its size.
    Below 5e9 it counts seconds (to the year 2128), below 5e12 milliseconds, below 5e15 microseconds, and below 5e18
    nanoseconds (all three since February 1970).  All other values are skipped: zero and less, larger numbers, NaN,
    booleans, other texts and objects.
    """
    for value in values:
        number = value
        if isinstance(value, str):
            if re.fullmatch(_ISO8601, value):
                return "iso8601"
            number = float(value) if re.fullmatch(_NUMBER, value) else None
        if isinstance(number, int | float) and not isinstance(number, bool) and number > 0:
            unit = next((unit for unit, end in _DETECTED_BELOW.items() if number < end), None)
            if unit is not None:
                return unit
    return None


def value_times(values: Sequence[object], unit: TimeUnit | None) -> pa.Int64Array:
    """Return the times of JSON values in milliseconds; null for values that are not times.

    Numbers are int or float.  A float counts as its shortest decimal, so that 1700000000.123 s has 123 ms.  See
    assigned_times for texts, for zeros, and for values whose unit is not known yet.
    """
    texts = pa.array([value if type(value) is str else None for value in values], pa.string())
    if unit is None or unit == "iso8601":
        zeros = pa.array([0 if type(value) in {int, float} and not value else None for value in values], pa.int64())
        return pc.coalesce(assigned_times(texts, unit), zeros)
    # type(), not isinstance(): a bool is an int to Python.
    limit = limit_of(unit)
    whole = pa.array([value if type(value) is int and abs(value) < limit else None for value in values], pa.int64())
    floats = pa.array([value if type(value) is float else None for value in values], pa.float64())
    times = pc.coalesce(number_times(whole, unit), number_times(floats, unit))
    return times if texts.null_count == len(texts) else pc.coalesce(times, text_times(texts, unit))


def assigned_times(texts: pa.Array, unit: TimeUnit | None) -> pa.Int64Array:
    """Return the times of an array of string or binary whose unit may be detected.

    As in text_times, but zero is 1970 in every unit, and before one is known, so what it means does not depend on the
    values that are read with it, from which the unit is detected.
    """
    times = text_times(texts, unit)
    if unit is None or unit == "iso8601":
        is_zero = pc.match_substring_regex(texts, f"^{_ZERO}$")
        times = pc.coalesce(times, pc.if_else(is_zero, 0, pa.scalar(None, pa.int64())))
    return times


def text_times(texts: pa.Array, unit: TimeUnit | None) -> pa.Int64Array:
    """Return the times of an array of string or binary in milliseconds; null for values that are not times.

    None: the unit is not known, so no text is a time.

    The units s, ms, us and ns take decimal numbers, also with a fraction or an exponent.  ISO 8601 is read in its
    extended format.  That is a date, or a date, "T" or a blank, and hours.  Minutes, seconds, their fraction, and "Z"
    or an offset may follow.  Without a zone, a time is UTC.  Leap seconds and 24:00 do not count.  Blanks are not
    trimmed.
    """
    if unit is None:
        return pa.nulls(len(texts), pa.int64())
    if unit == "iso8601":
        return _iso8601_times(texts)
    is_whole = pc.match_substring_regex(texts, f"^{_WHOLE}$")
    whole = number_times(_only(texts, is_whole).cast(pa.int64()), unit)
    is_other = pc.and_not(pc.match_substring_regex(texts, f"^{_NUMBER}$"), is_whole)
    return pc.coalesce(whole, number_times(_only(texts, is_other).cast(pa.float64()), unit))


def _only(texts: pa.Array, keep: pa.BooleanArray) -> pa.StringArray:
    return pc.if_else(keep, texts, pa.scalar(None, texts.type)).cast(pa.string())


def limit_of(unit: TimeUnit) -> int:
    """Return the number from which on a value is too large for a time in a unit."""
    return _LIMITS[unit]


def number_times(numbers: pa.Array, unit: TimeUnit) -> pa.Int64Array:
    """Convert int64 or double numbers of s, ms, us or ns to milliseconds, rounded down."""
    limit = limit_of(unit)
    given = numbers.fill_null(0).to_numpy()
    usable = np.asarray(numbers.is_valid()) & (given > -limit) & (given < limit)  # false for NaN
    given = np.where(usable, given, 0)
    if unit == "s":
        # Neither the product nor the quotient is exact.  But the quotient is the double nearest to the decimal, so a
        # comparison shows whether the product was rounded up.
        times = np.rint(given * 1000)
        times -= times / 1000 > given
    else:
        times = given // _PER_MS[unit]
    return pa.array(times.astype(np.int64), mask=~usable)


def _iso8601_times(texts: pa.Array) -> pa.Int64Array:
    with suppress(pa.ArrowInvalid):  # a text is not a time, has no zone, or is finer than milliseconds
        return texts.cast(pa.string()).cast(pa.timestamp("ms", "UTC")).view(pa.int64())
    fields = pc.extract_regex(texts, f"^{_ISO8601}$")

    def number(name: str) -> npt.NDArray[np.int64]:
        digits = pc.struct_field(fields, name).cast(pa.string())
        # A missing part is an empty text.  The digits of a fraction count from the left.
        padded = pc.utf8_rpad(digits, 3, "0") if name == "fraction" else pc.utf8_lpad(digits, 1, "0")
        numbers: npt.NDArray[np.int64] = padded.cast(pa.int64()).fill_null(0).to_numpy()
        return numbers

    months = ((number("year") - 1970) * 12 + number("month") - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (number("day") - 1)
    is_date = days.astype("datetime64[M]") == months  # the 30th of February becomes a day in March
    west = pc.is_in(pc.struct_field(fields, "sign").cast(pa.string()), pa.array(["-"]))  # false for null
    offset = (number("zone_hour") * 60 + number("zone_minute")) * np.where(west, -1, 1)
    minutes = (days.astype(np.int64) * 24 + number("hour")) * 60 + number("minute") - offset
    times = (minutes * 60 + number("second")) * 1000 + number("fraction")
    return pa.array(times, mask=~is_date | np.asarray(fields.is_null()))
