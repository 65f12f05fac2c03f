"""Reads event times from the key of an object, such as ``dt=2026-01-31/hour=07``."""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from string import digits
from typing import Literal, TypeAlias

from tidegate.alignment.durations import epoch_ms
from tidegate.errors import did_you_mean
from tidegate.readers.objects.values import TimeRange

_Token: TypeAlias = Literal["yyyy", "MM", "dd", "HH", "mm", "ss"]

_CALENDAR: tuple[_Token, ...] = ("yyyy", "MM", "dd", "HH", "mm", "ss")  # each needs those before it
_SHORT: dict[str, _Token] = {"M": "MM", "d": "dd", "H": "HH", "m": "mm"}
_PERIOD_MS: dict[str, int] = {"dd": 86_400_000, "HH": 3_600_000, "mm": 60_000, "ss": 1000}
_BRACES = re.compile("{([^{}]*)}")
_RUN = re.compile(r"([A-Za-z])\1*|[^A-Za-z]+")  # one letter repeated, or other text
_EXAMPLES = "expected one such as dt={yyyy-MM-dd}/hour={HH} or {yyyyMMdd}"


@dataclass(frozen=True, slots=True)
class PathTimes:
    """Takes the event-time range of an object's rows from its key, in UTC.

    template: literal text, with the parts of a time in braces, such as ``dt={yyyy-MM-dd}/hour={HH}`` or
        ``{yyyyMMdd}T{HHmmss}``.  The parts are ``yyyy`` (four digits), ``MM``, ``dd``, ``HH``, ``mm`` and ``ss`` (two
        digits), together or apart; each needs all larger units.  ``M``, ``d``, ``H`` and ``m`` have one or two digits,
        as in the folders that Spark names after numbers, and stand apart.

    The template may match anywhere in the key, and the first match that is a real time counts.  At the beginning and
    the end of the template, a number must be whole: ``{yyyy}`` does not find 2026 in 20261.

    Raises ValueError, one sentence, for a template that is malformed or names no time.
    """

    template: str
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _finest: _Token = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = [*_parts(self.template)]
        _require_apart(self.template, parts)
        finest = _finest([_SHORT.get(text, text) for text, is_token in parts if is_token])
        pattern = "".join(_digits(text) if is_token else re.escape(text) for text, is_token in parts)
        before = "(?<![0-9])" if parts[0][1] else ""
        after = "(?![0-9])" if parts[-1][1] else ""
        object.__setattr__(self, "_pattern", re.compile(before + pattern + after))
        object.__setattr__(self, "_finest", finest)

    def range_of(self, key: str) -> TimeRange | None:
        """Return the period that a key names, both ends inclusive; None: the key names none.

        The period is the whole of the finest unit (year, month ... second), to its last millisecond.
        """
        place = self.place_of(key)
        return None if place is None else place[1]

    def place_of(self, key: str) -> tuple[int, TimeRange] | None:
        """Return the place in a key where the template matches, and the period; None: the key names none."""
        for match in self._pattern.finditer(key):
            period = self._period(match.groupdict())
            if period is not None:
                return match.start(), period
        return None

    def _period(self, numbers: dict[str, str]) -> TimeRange | None:
        finest = self._finest
        year, month, day, hour, minute, second = (
            int(numbers.get(token, lowest)) for token, lowest in zip(_CALENDAR, (0, 1, 1, 0, 0, 0), strict=True)
        )
        try:
            begin_ms = epoch_ms(datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc))
        except ValueError:  # no such day, hour ... as on 30 February
            return None
        # The end is not computed from the next period, because Python's years end at 9999.
        if finest == "yyyy":
            length_ms = (365 + isleap(year)) * 86_400_000
        elif finest == "MM":
            length_ms = monthrange(year, month)[1] * 86_400_000
        else:
            length_ms = _PERIOD_MS[finest]
        return TimeRange(begin_ms, begin_ms + length_ms - 1)


def _parts(template: str) -> Iterator[tuple[str, bool]]:
    """Yield the template's pieces in order: a token and True, or literal text and False."""
    end = 0
    for braces in _BRACES.finditer(template):
        yield from _literal(template, template[end : braces.start()])
        end = braces.end()
        if not any(letter.isalpha() for letter in braces[1]):
            raise ValueError(f"the template {template!r} has braces without a time; {_EXAMPLES}")
        for run in _RUN.finditer(braces[1]):
            if run[1] is None:
                yield run[0], False
            elif run[0] in _CALENDAR or run[0] in _SHORT:
                yield run[0], True
            else:
                nearest = did_you_mean(run[0], _alike(run[0])) or f"; known are {', '.join(_CALENDAR)}"
                raise ValueError(f"the template {template!r} has the unknown unit {run[0]!r}{nearest}")
    yield from _literal(template, template[end:])


def _literal(template: str, text: str) -> Iterator[tuple[str, bool]]:
    for brace in "{}":
        if brace in text:
            raise ValueError(f"the template {template!r} has an unmatched {brace!r}; {_EXAMPLES}")
    if text:
        yield text, False


def _finest(tokens: list[str]) -> _Token:
    """Return the finest unit.  Raises ValueError for units that make no time."""
    for token in tokens:
        if tokens.count(token) > 1:
            raise ValueError(f"the template has {token!r} twice, and a time has it once")
    missing: str | None = None
    finest: _Token | None = None
    for token in _CALENDAR:
        if token not in tokens:
            missing = missing or token
        elif missing:
            raise ValueError(f"the template has {token!r} without {missing!r}, so it names no time")
        else:
            finest = token
    if finest is None:
        raise ValueError(f"the template has no time in it; {_EXAMPLES}")
    return finest


def _require_apart(template: str, parts: list[tuple[str, bool]]) -> None:
    """Raise ValueError for a part of one or two digits beside other digits: nobody could tell where it ends."""
    for (text, is_token), (after, is_token_after) in pairwise(parts):
        last, first = text if is_token else text[-1], after if is_token_after else after[0]
        has_short = (is_token and text in _SHORT) or (is_token_after and after in _SHORT)
        if has_short and (is_token or last in digits) and (is_token_after or first in digits):
            raise ValueError(f"the template {template!r} has {last!r} and {first!r} without a text between them")


def _digits(token: str) -> str:
    if token in _SHORT:
        return f"(?<![0-9])(?P<{_SHORT[token]}>[0-9]{{1,2}})(?![0-9])"
    return f"(?P<{token}>[0-9]{{{len(token)}}})"


def _alike(name: str) -> Iterable[str]:
    """Return the calendar units, last that of MM and mm with the case of ``name``: did_you_mean ignores case."""
    return sorted(_CALENDAR, key=lambda token: token.isupper() == name.isupper())
