"""Formats numbers, times and durations for display."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from tidegate.enumerators.planning.source_progress import utc_time

_MANIFEST = re.compile(r"0*(\d+)-[0-9a-f]{16}")


def count(number: float) -> str:
    """Return a whole number with separated thousands."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"


def printable(text: str) -> str:
    """Return a text with an escape for what cannot be printed: a name may hold commands for a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def share(part: int, whole: int) -> str:
    """Return a share as a percentage; 0 and 100 mean exactly none and all."""
    if whole == 0 or part in {0, whole}:
        return "100 %" if part else "0 %"
    return f"{min(max(100 * part / whole, 0.1), 99.9):.1f} %"


def clock_time(at: datetime | int | None) -> str:
    """Return a time in UTC, or in ms since the epoch, as date and time of day; a dash for None.

    A time out of Python's range becomes its limit.
    """
    if at is None:
        return "-"
    shown = at if isinstance(at, datetime) else utc_time(at)
    return shown.replace(tzinfo=None).isoformat(" ", "seconds")


def span(duration: timedelta | float) -> str:
    """Return a duration, as a timedelta or in ms, in its two greatest units; days only from two days on."""
    seconds = round(duration.total_seconds() if isinstance(duration, timedelta) else duration / 1000)
    for unit, length, least, below, part in (
        ("d", 86_400, 172_800, "h", 3600),
        ("h", 3600, 3600, "min", 60),
        ("min", 60, 60, "s", 1),
    ):
        if seconds >= least:
            remainder = seconds % length // part
            return f"{seconds // length} {unit} {remainder} {below}" if remainder else f"{seconds // length} {unit}"
    return f"{seconds} s"


def split_name(split: str) -> str:
    """Return the name of a split for people: for a manifest of objects, the discovery round that found them."""
    manifest = _MANIFEST.fullmatch(split)
    return split if manifest is None else f"objects of round {manifest[1]}"


def in_columns(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Return names and values as lines, with the values below each other."""
    width = max(len(name) for name, _ in lines)
    return [f"{name:{width}}  {value}" for name, value in lines]
