"""How much one batch may read, and the search for the event time up to which that suffices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.alignment.splits import SplitId, SplitRange

__all__ = ["UNLIMITED", "Budget", "Cost", "CostOf", "greatest_time_within", "share", "split_rows"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What ranges cost to read.  Zero for a unit that the connector does not count."""

    rows: int = 0
    bytes: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What one batch may cost; None: no limit of that unit."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None

    def used(self, cost: Cost) -> float:
        """Return the share of the budget that ``cost`` takes; more than 1: it does not fit."""
        pairs = ((cost.rows, self.rows), (cost.bytes, self.bytes), (cost.files, self.files))
        return max((spent / max(limit, 1) for spent, limit in pairs if limit is not None), default=0.0)


UNLIMITED = Budget()

CostOf = Callable[[Mapping[SplitId, SplitRange]], Cost]


def split_rows(ranges: Mapping[SplitId, SplitRange]) -> Cost:
    """Count positions as rows: the cost where a connector knows no better."""
    return Cost(rows=sum(r.end - r.start for r in ranges.values()))


def greatest_time_within(used: Callable[[int], float], low_ms: int, high_ms: int, used_at_high: float) -> int | None:
    """Return the greatest time in (low, high) whose batch fits the budget; None: none does.

    used: share of the budget that a batch cut at a time takes; not decreasing.  Costs a lookup, so
        the search interpolates, halves every third step, is content with 7/8 of the budget, and
        after ten steps with anything that fits.
    used_at_high: the share at ``high_ms``; more than 1.
    """
    best, used_at_low, step = None, 0.0, 0
    while high_ms - low_ms > 1 and (used_at_low < 7 / 8 if step < 10 else best is None):
        # Aim a little under the budget: a guess that fits ends the search, one that does not repeats it.
        aim = 0.5 if step % 3 == 2 else (15 / 16 - used_at_low) / (used_at_high - used_at_low)
        guess = min(high_ms - 1, max(low_ms + 1, low_ms + int((high_ms - low_ms) * aim)))
        share_used = used(guess)
        if share_used <= 1:
            best, low_ms, used_at_low = guess, guess, share_used
        else:
            high_ms, used_at_high = guess, share_used
        step += 1
    return best


def share(backlog: Mapping[SplitId, int], rows: int) -> dict[SplitId, int]:
    """Divide ``rows`` among splits in proportion to their backlogs, all of it, none beyond its backlog."""
    total = sum(backlog.values())
    if rows >= total:
        return dict(backlog)
    shares: dict[SplitId, int] = {}
    passed = 0
    for split, waiting in backlog.items():
        # Rounding the running sum instead of each share loses nothing and keeps the order of splits.
        shares[split] = (passed + waiting) * rows // total - passed * rows // total
        passed += waiting
    return shares
