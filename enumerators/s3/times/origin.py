"""The origin of the event times of objects, as the option eventTime names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import did_you_mean

__all__ = ["LAST_MODIFIED", "ColumnTimes", "LastModifiedTimes", "Origin", "parse_origin"]

_LAST_MODIFIED = "lastModified"


@dataclass(frozen=True, slots=True)
class LastModifiedTimes:
    """All rows of an object have the time when it was modified."""


LAST_MODIFIED = LastModifiedTimes()


@dataclass(frozen=True, slots=True)
class ColumnTimes:
    """Each row has the time in a column.

    name: the name of the column; a dotted path for a nested column.
    """

    name: str


Origin: TypeAlias = LastModifiedTimes | ColumnTimes | PathTimes


def parse_origin(text: str) -> Origin:
    """Return the origin of a text ``lastModified``, ``column:NAME`` or ``path:TEMPLATE``.

    Raises ValueError, one sentence, for anything else, and for a template that PathTimes does not take.
    """
    kind, colon, rest = text.partition(":")
    if text == _LAST_MODIFIED:
        return LAST_MODIFIED
    if kind == "column" and rest:
        return ColumnTimes(rest)
    if kind == "path" and colon:
        return PathTimes(rest)
    nearest = "" if kind == "column" else did_you_mean(kind, [_LAST_MODIFIED, "column:", "path:"])
    raise ValueError(f"expected lastModified, column:NAME or path:TEMPLATE{nearest}")
