"""How long unread records will still be there: what is deleted behind a split that waits.

Alignment pauses splits, and meanwhile the other side may delete their unread records.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.alignment.splits import Extents, Positions, SplitId

__all__ = ["RetentionWatch"]

_LEAST_SECONDS = 1.0


class RetentionWatch:
    """Estimates from the way the begin of each split moves when it will pass the split's position."""

    def __init__(self) -> None:
        self._first: dict[SplitId, tuple[float, int]] = {}

    def seconds_left(self, now_s: float, positions: Positions, extents: Extents) -> Mapping[SplitId, float]:
        """Return the time until unread records are deleted, for splits of which records were deleted since.

        now_s: on any clock that goes on.  Called once per plan.
        """
        self._first = {s: self._first.get(s, (now_s, extent.begin)) for s, extent in extents.items()}
        left = {}
        for split, (since_s, begin) in self._first.items():
            extent, position = extents[split], positions[split]
            seconds = now_s - since_s
            if begin < extent.begin <= position < extent.end and seconds >= _LEAST_SECONDS:
                left[split] = (position - extent.begin) * seconds / (extent.begin - begin)
        return left
