"""Casts texts to the values of columns, as Spark does (DateTimeUtils, Decimal).

A text that does not fit the type is None.  A time without a zone is UTC.  Values have the form that Arrow expects for
the type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import are_null, int64_values, integers

LONG_FRACTION = r"[.][0-9]{20}|[0-9.][eE]-0*(?:19|[2-9][0-9]|[1-9][0-9]{2,})"
"""Numbers that may have more than 38 digits after the point.

When Arrow casts one to a decimal, it reads past the end of its table of powers of ten.  Some numbers end the process
(``1e-10000000``).
"""

_MOST_PLACES = 38  # the maximum scale of a decimal
_MOST_OFFSET = timedelta(hours=18)  # of a zone from UTC, in Java
_FAR_ZONE = "[+-](?:19|2[0-9]|18:?(?:0[1-9]|[1-5][0-9]))(?::?[0-9]{2})?$"  # which Arrow takes
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WHOLE = re.compile("[+-]?[0-9]{1,99}")
_REAL = re.compile("[+-]?(?:NaN|Infinity|(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)")
_BLANKS = "".join(map(chr, range(33)))
_MICROSECOND = timedelta(microseconds=1)
_CYCLE_YEARS, _CYCLE = 400, timedelta(days=146_097)  # the calendar repeats after 400 years
_DECIMAL = re.compile("[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[eE][+-]?0*[0-9]{1,4})?")
# The dates and times that Spark accepts in addition to ISO 8601, but not a time of day alone, which means today.
_DATE = re.compile("([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?")
_TIME = re.compile(
    "(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T]"
    "(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:[.](?P<fraction>[0-9]{1,9}))?)?)?"
    "(?P<zone> ?(?:Z|(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<offset_hour>[0-9]{1,2})(?::?(?P<offset_minute>[0-5][0-9]))?"
    "|UTC|GMT|UT|(?P<region>[A-Za-z_]+/[A-Za-z_/+-]+)))?)?)?)?"
)


def caster_of(kind: pa.DataType) -> Callable[[str], Any] | None:  # noqa: PLR0911 - one branch a type
    """Return the function that casts a text to a type; None: texts have to be read in another way."""
    types = pa.types
    if types.is_signed_integer(kind):
        return partial(whole_of, bits=kind.bit_width)
    if types.is_float32(kind) or types.is_float64(kind):
        return real_of
    if types.is_boolean(kind):
        return lambda text: {"true": True, "false": False}.get(text.lower())
    if types.is_decimal(kind):
        return lambda text: decimal_of(text, kind)
    if types.is_date32(kind):
        return date_of
    if types.is_timestamp(kind) and kind.unit == "us":
        return partial(timestamp_of, has_zone=kind.tz is not None)
    return None


def whole_of(text: str, *, bits: int) -> int | None:
    """Return an integer of so many bits."""
    number = int(text) if _WHOLE.fullmatch(text) else 2**bits
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def real_of(text: str) -> float | None:
    """Return a decimal number as Java's Double.parseDouble does."""
    text = text.strip(_BLANKS)
    if not _REAL.fullmatch(text):
        return None
    return float(text if text.endswith(("Infinity", "NaN")) else text.rstrip("dDfF"))


def decimal_of(text: str, kind: pa.DataType) -> Decimal | None:
    """Return a number as a decimal of this type; digits after its scale are rounded half up."""
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        rounded = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, Context(prec=100))
    except DecimalException:
        return None
    # abs() would round to 28 digits.
    return None if rounded.copy_abs() >= Decimal(10) ** (kind.precision - kind.scale) else rounded


def decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast texts to decimals; raises ArrowInvalid for a text that is not a decimal, does not fit, or would be rounded.

    Arrow gives another number for one that takes more than 128 bits.
    """
    most = _MOST_PLACES - kind.scale
    too_large = rf"^[+-]?0*[1-9][0-9]{{{most},}}|[eE][+]?0*[1-9]|[0-9.]{{{_MOST_PLACES + 1}}}"
    are_long = pc.match_substring_regex(texts, rf"{LONG_FRACTION}|{too_large}")
    if pc.any(are_long).as_py():
        pairs = zip(texts.to_pylist(), are_long.to_pylist(), strict=True)
        texts = pa.array([_shortened(text, most) if is_long else text for text, is_long in pairs], pa.string())
    return texts.cast(kind)


def _shortened(text: str, most: int) -> str:
    """Return a number without zeros at its end, and with at most so many digits before the point."""
    sign, digits, exponent = Decimal(text).as_tuple() if _DECIMAL.fullmatch(text) else (0, (), "")
    figures = "".join(map(str, digits)).lstrip("0")
    shorter = figures.rstrip("0") or "0"
    places = int(exponent or 0) + len(figures) - len(shorter) if figures else 0
    is_large = figures and (len(shorter) > _MOST_PLACES or places + len(shorter) > most)
    if not digits or places < -_MOST_PLACES or is_large:
        raise pa.ArrowInvalid("it is not a decimal, does not fit, or would be rounded")
    return f"{'-' if sign else ''}{shorter}e{places}"


def date_of(text: str) -> int | None:
    """Return a date in days since the epoch; month and day may be missing, and a time after the date is ignored."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        return (date(year or _CYCLE_YEARS, month, day) - _EPOCH.date() - _before(year)).days
    except ValueError:
        return None


def _before(year: int) -> timedelta:
    """Return the time from a year to the year that replaces it; Python has no year 0, so the year 400 replaces it."""
    return timedelta(0) if year else _CYCLE


def timestamp_of(text: str, *, has_zone: bool) -> int | None:
    """Return a time in microseconds since the epoch.

    has_zone: the time is an instant.  False: the text must not name a zone.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or (match["zone"] and not has_zone):
        return None
    year, month, day = (int(match[part] or 1) for part in ("year", "month", "day"))
    hour, minute, second, offset_hour, offset_minute = (
        int(match[part] or 0) for part in ("hour", "minute", "second", "offset_hour", "offset_minute")
    )
    microsecond = int((match["fraction"] or "")[:6].ljust(6, "0"))
    try:
        zone = ZoneInfo(match["region"]) if match["region"] else timezone.utc
        local = datetime(year or _CYCLE_YEARS, month, day, hour, minute, second, microsecond, zone)
    except (ValueError, LookupError, OSError):  # there is no such time, or no such zone
        return None
    offset = timedelta(hours=offset_hour, minutes=offset_minute) * (-1 if match["sign"] == "-" else 1)
    if abs(offset) > _MOST_OFFSET:
        return None
    return (local - _EPOCH - offset - _before(year)) // _MICROSECOND


def microseconds_of(times: pa.Array) -> pa.Array:
    """Return timestamps in nanoseconds as microseconds, rounded down; Arrow rounds towards zero, or refuses."""
    kind = pa.timestamp("us", times.type.tz)
    return integers(int64_values(times) // 1000, kind, are_null(times) if times.null_count else None)


def _are_of_another_day(times: pa.TimestampArray, texts: pa.StringArray) -> bool:
    """Return whether times in nanoseconds did not fit: PyArrow before 25 then gives a time of another century."""
    try:
        days = int64_values(pc.utf8_slice_codeunits(texts, 0, 10).cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
    except pa.ArrowInvalid:
        return True
    found = int64_values(times) // (86_400 * 10**9)
    return bool(np.any((np.abs(found - days) > 1) & ~are_null(times)))  # a zone may move a time to the next day


def _has_far_zone(texts: pa.StringArray) -> bool:
    are_utc = pc.all(pc.ends_with(texts, "Z")).as_py()  # found ten times as fast
    return not are_utc and pc.any(pc.match_substring_regex(texts, _FAR_ZONE)).as_py() is True


def timestamps(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Parse a whole column of ISO 8601 at once.

    Raises ArrowInvalid for any other text, and if only some texts have a zone.
    """
    zones = [None] if kind.tz is None else ["UTC", None]
    for unit in ("us", "ns"):
        for zone in zones:
            try:
                times = texts.cast(pa.timestamp(unit, zone))
            except pa.ArrowInvalid:
                continue
            if zone is not None and _has_far_zone(texts):
                raise pa.ArrowInvalid("there is no such zone")
            if unit == "ns":
                if _are_of_another_day(times, texts):
                    continue
                times = microseconds_of(times)
            return times.view(pa.int64()).view(pa.timestamp("us", kind.tz)).cast(kind)
    raise pa.ArrowInvalid("not all values are times, or only some have a zone")
