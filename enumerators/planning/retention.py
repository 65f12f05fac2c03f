"""Estimates how long unread records of a waiting split will still exist.

Alignment pauses splits, and meanwhile the other side may delete their unread records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tidegate.alignment.splits import Extents, Positions, SplitId

__all__ = ["RetentionEstimate"]

_WINDOW_S = 600.0
_SPACING_S = 60.0
_LEAST_S = 1.0


class RetentionEstimate:
    """Estimates when the begin of each split passes its position, from the recent moves of the begin.

    Recent means some ten minutes: deletion may begin late in a run, and then goes on in jumps.
    """

    def __init__(self) -> None:
        self._begins: dict[SplitId, deque[tuple[float, int]]] = {}

    def seconds_left(self, now_s: float, positions: Positions, extents: Extents) -> Mapping[SplitId, float]:
        """Return the time until unread records are deleted, for splits with recently deleted records.

        now_s: of any monotonic clock.  Called once per plan.
        """
        self._begins = {s: self._begins.get(s, deque()) for s in extents}
        left = {}
        for split, begins in self._begins.items():
            extent, position = extents[split], positions[split]
            if not begins or now_s - begins[-1][0] >= _SPACING_S:
                begins.append((now_s, extent.begin))
            while now_s - begins[0][0] > _WINDOW_S:
                begins.popleft()
            since_s, begin = begins[0]
            if begin < extent.begin <= position < extent.end and now_s - since_s >= _LEAST_S:
                left[split] = (position - extent.begin) * (now_s - since_s) / (extent.begin - begin)
        return left
