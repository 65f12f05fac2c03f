"""Estimates how long unread records of a waiting split will still exist.

Alignment pauses splits, and their unread records may be deleted meanwhile.
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
    """Estimates when the begin of each split will pass its position, from how the begin moved recently.

    Recently means the last ten minutes: deletion may begin late in a run, and then continues in jumps.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Positions]] = deque()

    def seconds_left(self, now_s: float, positions: Positions, extents: Extents) -> Mapping[SplitId, float]:
        """Return the time until unread records are deleted, for splits with recently deleted records.

        now_s: the time of any monotonic clock.  Called once per plan.
        """
        looks = self._looks
        if not looks or now_s - looks[-1][0] >= _SPACING_S:
            looks.append((now_s, {s: extent.begin for s, extent in extents.items()}))
        while now_s - looks[0][0] > _WINDOW_S:
            looks.popleft()
        first = looks[0][1]
        moved = [s for s, extent in extents.items() if first.get(s) != extent.begin <= positions[s] < extent.end]
        left = {}
        for split in moved:
            begin = extents[split].begin
            since_s, begins = next((look for look in looks if split in look[1]), (now_s, first))
            if now_s - since_s >= _LEAST_S and begins[split] < begin:
                left[split] = (positions[split] - begin) * (now_s - since_s) / (begin - begins[split])
        return left
