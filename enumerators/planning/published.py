"""Publishes the progress of the source after each plan; Spark shows it in the progress of the query."""

from __future__ import annotations

from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Plan
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.contract import Json, SplitEnumerator, SupportsMetrics, SupportsOvershoot, SupportsOwnProgress
from tidegate.enumerators.planning.costs import cost_of_rows
from tidegate.enumerators.planning.retention import RetentionEstimate
from tidegate.enumerators.planning.source_progress import ProgressReporter
from tidegate.enumerators.planning.splits import FoundSplits

__all__ = ["Published"]


class Published:
    """Publishes the progress after each plan.

    progress: the progress after the last plan; None before the first.
    """

    def __init__(self, reporter: ProgressReporter, clocks: Clocks) -> None:
        self._reporter, self._clocks = reporter, clocks
        self._retention = RetentionEstimate()
        self._lookups = self._peeks = 0
        self.progress: Json | None = None

    def publish(
        self,
        planned: Plan,
        current: FoundSplits,
        enumerator: SplitEnumerator,
        index: TimeIndex,
        held_by: str | None,
        said: Json,
    ) -> None:
        """Publish a plan.  Called once per plan.

        held_by: the split or the member that sets the bound, for display.
        said: further entries, about a watermark that is not planned.
        """
        available = {s: extent for s, extent in current.extents.items() if extent.available}
        seconds_left = self._retention.seconds_left(self._clocks.monotonic(), planned.progress.positions, available)
        progress = self._reporter.describe(
            planned,
            current.ends,
            int(self._clocks.wall() * 1000),
            seconds_left,
            {"lookups": index.lookups - self._lookups, "peeks": index.peeks - self._peeks},
            cost_of_rows(enumerator),
            metrics=enumerator.metrics() if isinstance(enumerator, SupportsMetrics) else {},
            overshoot_ms=_overshoot_ms(enumerator, planned),
        )
        self._lookups, self._peeks = index.lookups, index.peeks
        own = (
            enumerator.own_progress(planned.progress.positions, current.ends)
            if isinstance(enumerator, SupportsOwnProgress)
            else {}
        )
        self.progress = {**own, **progress, "heldBy": held_by, **said}


def _overshoot_ms(enumerator: SplitEnumerator, planned: Plan) -> int | None:
    bound_ms = planned.progress.bound_ms
    if not isinstance(enumerator, SupportsOvershoot) or bound_ms is None:
        return None
    return enumerator.overshoot_ms(planned.ranges, bound_ms)
