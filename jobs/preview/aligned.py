"""The batches that tidegate's own planner makes of the previewed rows.  Pure logic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from tidegate.alignment.budget import Budget
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Head, Positions, SplitId
from tidegate.alignment.standing import find_standing
from tidegate.jobs.preview.history import History

__all__ = ["MOST_BATCHES", "aligned"]

MOST_BATCHES = 2_000


def aligned(histories: Mapping[SplitId, History], max_drift_ms: int, rows: int | None) -> Iterator[Positions]:
    """Yield the positions after each batch of the planner, the first MOST_BATCHES at most.

    rows: maxOffsetsPerTrigger.
    """
    index = TimeIndex(_Index(histories))
    extents = {s: Extent(history.start, history.end, complete=True) for s, history in histories.items()}
    disorder_ms = max((history.worst_lag_ms for history in histories.values()), default=0)
    limits = Limits(max_drift_ms=max_drift_ms, out_of_orderness_ms=disorder_ms, budget=Budget(rows=rows))
    progress = Progress({s: extent.begin for s, extent in extents.items()})
    for _ in range(MOST_BATCHES):
        if all(progress.positions[s] >= extent.end for s, extent in extents.items()):
            return
        progress = plan(find_standing(progress, extents, (), index, limits), None, index, limits).progress
        yield progress.positions


class _Index:
    """Answers the planner by histories, without their lags."""

    def __init__(self, histories: Mapping[SplitId, History]) -> None:
        self._histories = histories
        self._ceilings = {split: history.ceilings() for split, history in histories.items()}

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the row at each position."""
        del horizon
        return {
            s: Head(at, self._histories[s].time_ms(at)) if at < self._histories[s].end else None
            for s, at in positions.items()
        }

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Return the greatest event time before each end."""
        del horizon
        return {s: self._histories[s].greatest_ms(self._histories[s].start, end) for s, end in ends.items()}

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the first row at or after a time."""
        return {split: self._first(split, event_time_ms) for split in positions}

    def _first(self, split: SplitId, time_ms: int) -> Head | None:
        ceilings = self._ceilings[split]
        place = bisect_left(ceilings, time_ms)
        if place == len(ceilings):
            return None
        part = self._histories[split].slices[place]
        at = part.start if part.time_ms(part.start) >= time_ms else part.first_at(time_ms)
        return Head(at, part.time_ms(at))
