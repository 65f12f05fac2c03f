"""Windows, and the arithmetic of their times: whole milliseconds since 1970 that fit into 64 bits."""

from __future__ import annotations

from datetime import timedelta
from operator import index
from typing import NamedTuple, TypeAlias

from tidegate.errors import OptionError

MIN_TIME = -(2**63)
MAX_TIME = 2**63 - 1


class TimeWindow(NamedTuple):
    """The times from ``start`` (inclusive) to ``end`` (exclusive), in milliseconds."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last time in the window."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the two windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}) ms"


class GlobalWindow(NamedTuple):
    """The one window that holds all times."""

    start: None = None
    end: None = None

    def max_timestamp(self) -> int:
        """Return the greatest time of 64 bits: the global window is never cleaned up."""
        return MAX_TIME

    def __str__(self) -> str:
        return "of all times"


Window: TypeAlias = TimeWindow | GlobalWindow


def duration_ms(name: str, duration: timedelta, least: int | None = None, part: str = "") -> int:
    """Return a duration in whole milliseconds.

    least: the least number of them, 0 or 1; None: a duration may be negative.
    part: the part to which the duration belongs, for the error, as in "of TimeEvictor".
    Raises OptionError if the duration is not a timedelta, is finer than a millisecond, or is less than ``least``.
    """
    if not isinstance(duration, timedelta):
        raise OptionError(f"{name} is {duration!r}, but must be a datetime.timedelta, such as timedelta(minutes=5)")
    whole, remainder = divmod(duration, timedelta(milliseconds=1))
    if remainder:
        raise OptionError(f"{name}={duration} must be a whole number of milliseconds.")
    if least is not None and whole < least:
        value = f"{name}={duration} {part}".rstrip()
        raise OptionError(f"{value} must {'be positive' if least else 'not be negative'}.")
    return whole


def whole_number(name: str, number: int, least: int, part: str = "") -> int:
    """Return the number as an int.

    part: the part to which the number belongs, for the error, as in "of CountTrigger".
    Raises OptionError if the number is not whole, or less than ``least``.
    """
    value = f"{name}={number!r} {part}".rstrip()
    try:
        whole = index(number)
    except TypeError:
        raise OptionError(f"{value} must be a whole number.") from None
    if whole < least:
        raise OptionError(f"{value} must {f'be at least {least}' if least else 'not be negative'}.")
    return whole


def saturated(time: int) -> int:
    """Return a time, or the greatest time of 64 bits if it is later than that."""
    return min(time, MAX_TIME)


def truncated(time: int, interval: int) -> int:
    """Return the multiple of the interval nearest to a time, towards 1970.

    Flink's continuous triggers count like this, because Java's remainder has the sign of its dividend.
    """
    return time - time % interval if time >= 0 else time + -time % interval


def window_start(timestamp: int, offset: int, size: int) -> int:
    """Return the start of the window of this size that holds a time, even before 1970.

    As Flink's getWindowStartWithOffset.  Python's remainder is never negative, so one case is enough.
    """
    return timestamp - (timestamp - offset) % size
