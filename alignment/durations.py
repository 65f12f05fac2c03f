"""Durations: timedelta at the public edge, int milliseconds inside."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["milliseconds"]

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """Return ``duration`` in whole milliseconds, rounded down."""
    return duration // _MILLISECOND
