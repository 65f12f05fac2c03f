"""The event times at which splits hold back the others (rule 1 of ``docs/planning.md``): the least of them is low."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidegate.alignment.plan import Limits, Progress
from tidegate.alignment.splits import SplitId

__all__ = ["find_lows"]


def find_lows(
    progress: Progress,
    *,
    heads_ms: Mapping[SplitId, int],
    latest_ms: Mapping[SplitId, int],
    away: Collection[SplitId],
    late: Collection[SplitId],
    limits: Limits,
) -> dict[SplitId, int]:
    """Return the event time from which on each split may still have rows; a split without one holds back nothing.

    progress: its watermark and bound.
    heads_ms: of the next record of each split that has one.
    latest_ms: the greatest event time of each split that has caught up, and is not idle.
    away: the splits that cannot be reached, and are not idle.
    late: the splits that came, or woke, behind the watermark, and have not caught up with it.
    """
    in_time_ms, drift_ms = progress.in_time_ms, limits.max_drift_ms
    waits_for_late = limits.late_splits == "catch-up"
    lows: dict[SplitId, int] = {}
    for split, head_ms in heads_ms.items():
        if limits.holds(head_ms):
            continue
        if split not in late:
            # Behind a record that breaks the out-of-orderness, the next ones are in time.
            lows[split] = head_ms if in_time_ms is None or head_ms > in_time_ms else in_time_ms
        elif waits_for_late:
            lows[split] = head_ms
    if drift_ms is None:
        return lows
    lows.update({s: at_ms if in_time_ms is None else max(at_ms, in_time_ms) for s, at_ms in latest_ms.items()})
    # Rule 7: a split that cannot be reached may resume right behind the watermark, or where the last bound began.
    away_ms = in_time_ms
    if away_ms is None and progress.bound_ms is not None:
        away_ms = progress.bound_ms - drift_ms
    if away_ms is not None:
        lows.update(dict.fromkeys(away, away_ms))
    return lows
