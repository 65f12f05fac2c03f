"""Durations and times: timedelta and datetime at the public edge, int milliseconds inside."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import overload

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def milliseconds(duration: timedelta) -> int:
    """Return ``duration`` in whole milliseconds, rounded down."""
    return duration // _MILLISECOND


@overload
def epoch_ms(time: datetime) -> int: ...
@overload
def epoch_ms(time: None) -> None: ...
def epoch_ms(time: datetime | None) -> int | None:
    """Return a time in whole milliseconds since the epoch, rounded down; without a zone it is UTC."""
    if time is None:
        return None
    return milliseconds((time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)) - _EPOCH)
