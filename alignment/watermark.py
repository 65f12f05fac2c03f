"""The watermark of a split and of a source.

A watermark ``w`` promises that no record with event time <= ``w`` will come, except for records that break the declared
out-of-orderness (Flink: BoundedOutOfOrdernessWatermarks).
"""

from __future__ import annotations

from collections.abc import Collection


def split_watermark(reached_ms: int, out_of_orderness_ms: int) -> int:
    """Return the watermark of a split without an unread record in order before this event time."""
    return reached_ms - out_of_orderness_ms - 1


def combine(holding: Collection[int], released: Collection[int]) -> int | None:
    """Return the source's watermark from those of its splits; None when no split has one.

    It is the minimum over the splits that hold it back.  When none does (all are idle), it is the maximum over the
    others, in whatever order they went idle (FLINK-38454).
    """
    return min(holding) if holding else max(released, default=None)


def advanced(before_ms: int | None, now_ms: int | None) -> int | None:
    """Return a time that never goes back, such as a watermark, from its last and its new value."""
    return max((at_ms for at_ms in (before_ms, now_ms) if at_ms is not None), default=None)


def multiplexed(before_ms: int | None, active: Collection[int | None], others: Collection[int | None]) -> int | None:
    """Return the watermark of a source from generators of its splits (Flink: WatermarkOutputMultiplexer).

    None: there is none yet.

    before_ms: the last one.  It never goes back, whatever a split that wakes or begins says.
    active: the watermarks of the splits that hold it back: it is their minimum.  None: a split has none yet.
    others: the watermarks of the other splits, idle or gone.  The greatest counts if no split is active.
    """
    if None in active:
        return before_ms
    least = combine([w for w in active if w is not None], [w for w in others if w is not None])
    return advanced(before_ms, least)
