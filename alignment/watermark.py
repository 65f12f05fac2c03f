"""The watermark of a split and of a source.

A watermark ``w`` promises that no record with event time <= ``w`` is still to come, but for
records that break the declared out-of-orderness (Flink: BoundedOutOfOrdernessWatermarks).
None stands for minus infinity.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["advance", "combine", "split_watermark"]


def split_watermark(reached_ms: int | None, out_of_orderness_ms: int) -> int | None:
    """Return the watermark of a split that has been read up to ``reached_ms``.

    reached_ms: no in-order record before this time is unread; None: nothing is known yet.
    """
    return None if reached_ms is None else reached_ms - out_of_orderness_ms - 1


def combine(holding: Iterable[int | None], released: Iterable[int | None]) -> int | None:
    """Return the source's watermark from those of its splits.

    The minimum over the splits that hold it.  When none does (all are idle), the maximum over the
    others: that is the same whatever the order in which they went idle (FLINK-38454).
    """
    held = list(holding)
    if held:
        return None if None in held else min(w for w in held if w is not None)
    return max((w for w in released if w is not None), default=None)


def advance(before_ms: int | None, now_ms: int | None) -> int | None:
    """Return the later of two watermarks: a source's watermark never goes back."""
    if before_ms is None or now_ms is None:
        return now_ms if before_ms is None else before_ms
    return max(before_ms, now_ms)
