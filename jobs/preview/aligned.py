"""The batches that tidegate's own planner makes of the previewed rows.  Pure logic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tidegate.alignment.budget import Budget, CostOf, split_rows
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.index import SupportsPeek, TimeIndex
from tidegate.alignment.plan import Limits, Observed, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Extents, Head, Positions, SplitId
from tidegate.jobs.preview.seen import History

MOST_PLANS = 500_000  # of single splits: some ten seconds
_LEAST_SPLITS = 10  # a plan of fewer takes as long


def aligned(
    source: SupportsPeek,
    extents: Extents,
    max_drift_ms: int,
    budget: Budget,
    *,
    out_of_orderness_ms: int = 0,
    cost: CostOf = split_rows,
) -> Iterator[Positions]:
    """Yield the positions after each batch of the planner, up to the end, or to MOST_PLANS."""
    index = TimeIndex(source)
    limits = Limits(max_drift_ms=max_drift_ms, out_of_orderness_ms=out_of_orderness_ms, budget=budget, cost=cost)
    progress = Progress({s: extent.begin for s, extent in extents.items()})
    for _ in range(MOST_PLANS // max(_LEAST_SPLITS, len(extents))):
        if all(progress.positions[s] >= extent.end for s, extent in extents.items()):
            return
        progress = plan(Observed(progress, extents), limits, index).progress
        yield progress.positions


def aligned_histories(histories: Mapping[SplitId, History], max_drift_ms: int, budget: Budget) -> Iterator[Positions]:
    """Yield the positions in some histories after each batch of the planner, as ``aligned`` does."""
    extents = {s: Extent(history.start, history.end, complete=True) for s, history in histories.items()}
    disorder_ms = max((history.disorder_ms for history in histories.values()), default=0)
    return aligned(_Index(histories), extents, max_drift_ms, budget, out_of_orderness_ms=disorder_ms)


class _Index:
    """Answers the planner by histories."""

    def __init__(self, histories: Mapping[SplitId, History]) -> None:
        self._histories = histories
        self._greatest = {s: np.maximum.accumulate(history.times_ms) for s, history in histories.items()}

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the row at each position."""
        del horizon
        return {s: self._head(s, at) for s, at in positions.items()}

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Return the greatest event time before each end."""
        del horizon
        return {s: int(self._greatest[s][self._histories[s].place(end) - 1]) for s, end in ends.items()}

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the first row at or after a time."""
        places = {s: int(np.searchsorted(self._greatest[s], event_time_ms)) for s in positions}
        return {s: self._head(s, self._histories[s].position(place)) for s, place in places.items()}

    def _head(self, split: SplitId, position: int) -> Head | None:
        history = self._histories[split]
        return Head(position, int(history.times_ms[history.place(position)])) if position < history.end else None
