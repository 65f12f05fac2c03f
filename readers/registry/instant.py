"""A value whose type is a time, so that it needs no unit."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Instant"]


class Instant(NamedTuple):
    """A time in milliseconds since the epoch, rounded down."""

    ms: int
