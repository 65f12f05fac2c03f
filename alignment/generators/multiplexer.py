"""The watermark of a source from the watermarks of its splits (Flink: WatermarkOutputMultiplexer, FLINK-38454)."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.alignment.watermark import advanced, combine

__all__ = ["multiplexed"]


def multiplexed(before_ms: int | None, active: Collection[int | None], others: Collection[int | None]) -> int | None:
    """Return the watermark of a source; None: there is none yet.

    before_ms: the last one.  It never goes back, whatever a split that wakes or begins says.
    active: the watermarks of the splits that hold it back: it is their minimum.  None: a split has none yet.
    others: the watermarks of the other splits, idle or gone.  The greatest counts if no split is active.
    """
    if None in active:
        return before_ms
    least = combine([w for w in active if w is not None], [w for w in others if w is not None])
    return advanced(before_ms, least)
