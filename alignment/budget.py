"""The budget of a batch, and the search for the largest batch that fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.alignment.splits import SplitId, SplitRange

_PATIENCE = 10  # steps, after which anything that fits ends a search


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of reading ranges.  A unit that the connector does not count is zero."""

    rows: int = 0
    bytes: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that one batch may cost; None: no limit of that unit.  A limit of zero counts as one."""

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
    """Count positions as rows: the default cost."""
    return Cost(rows=sum([r.end - r.start for r in ranges.values()]))


def greatest_within(
    used: Callable[[int], float],
    low: int,
    high: int,
    used_at_high: float,
    sample: Callable[[int, int, float], int] | None = None,
    enough: float = 7 / 8,
) -> int | None:
    """Return roughly the greatest number in (low, high) whose batch fits the budget; None: none does.

    used: the share of the budget that a batch takes; must not decrease.
    used_at_high: the share at ``high``; more than 1.  The share at ``low`` is 0.
    sample: takes low, high and a share, and returns a number between them below which about that share of the batch
        lies.  Called once interpolation, which assumes evenly spread data, has missed.
    enough: the share of the budget that ends the search, because each step may cost a request.
    """
    best, used_at_low, step = None, 0.0, 0
    while high - low > 1 and (used_at_low < enough if step < _PATIENCE else best is None):
        # Aim between enough and all, so that a guess that is slightly off still ends the search.
        aim = ((enough + 1) / 2 - used_at_low) / (used_at_high - used_at_low)
        if step % 4 == 3:
            guess = (low + high) // 2
        elif step > 0 and sample is not None:
            guess = sample(low, high, aim)
        else:
            guess = low + int((high - low) * aim)
        guess = min(high - 1, max(low + 1, guess))
        share_used = used(guess)
        if share_used <= 1:
            best, low, used_at_low = guess, guess, share_used
        else:
            high, used_at_high = guess, share_used
        step += 1
    return best


def share(backlog: Mapping[SplitId, int], rows: int) -> dict[SplitId, int]:
    """Divide all ``rows`` among splits, giving none more than its backlog.

    If there are enough rows, each split with a backlog gets one first, so that large splits do not starve small ones.
    Spark's own Kafka source does the same.  The rest is shared in proportion to the remaining backlogs.
    """
    total = sum(backlog.values())
    if rows >= total:
        return dict(backlog)
    behind = sum(waiting > 0 for waiting in backlog.values())
    least = int(rows >= behind)
    spare, wanted = rows - least * behind, total - least * behind
    shares: dict[SplitId, int] = {}
    passed = shared = 0
    for split, waiting in backlog.items():
        first = min(least, waiting)
        # Rounding the running sum instead of each share gives out every row.
        passed += waiting - first
        due = passed * spare // wanted
        shares[split] = first + due - shared
        shared = due
    return shares
