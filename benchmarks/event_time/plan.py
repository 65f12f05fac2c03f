"""Measures the time of one plan, by the number of splits.

``plan`` runs on the driver before every micro-batch, so it must be short compared with the batch.  The index is in
memory: the planner is measured, not a broker.

    python -m benchmarks.event_time.plan

The program fails if a plan of 10,000 splits takes more than 100 ms.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Head
from tidegate.alignment.standing import find_standing

HOUR_MS = 3_600_000
ROWS_PER_SPLIT = 1_000
ROUNDS = 7
MOST_MS = 100.0


class SortedLogs:
    """Splits in memory: for each, the event times of its records in order; positions count from 0."""

    def __init__(self, times: Mapping[str, Sequence[int]]) -> None:
        self.times = times
        self.extents = {s: Extent(0, len(of_split)) for s, of_split in times.items()}

    def peek(self, positions: Mapping[str, int], _horizon: Horizon) -> dict[str, Head | None]:
        """Return the record at each position."""
        times = self.times
        return {s: Head(p, times[s][p]) if p < len(times[s]) else None for s, p in positions.items()}

    def latest(self, ends: Mapping[str, int], _horizon: Horizon) -> dict[str, int | None]:
        """Return the time of the last record before each end."""
        return {s: self.times[s][end - 1] if end else None for s, end in ends.items()}


class LookupLogs(SortedLogs):
    """Splits in memory with an index by time."""

    def lookup(self, event_time_ms: int, splits: Collection[str]) -> dict[str, Head | None]:
        """Return the first record at or after the time."""
        heads: dict[str, Head | None] = {}
        for split in splits:
            times = self.times[split]
            position = bisect_left(times, event_time_ms)
            heads[split] = Head(position, times[position]) if position < len(times) else None
        return heads


def random_logs(splits: int) -> LookupLogs:
    """Return a day of history per split, each with its own rhythm."""
    dice = random.Random(splits)
    gap_ms = 24 * HOUR_MS // ROWS_PER_SPLIT
    return LookupLogs(
        {
            f"orders-{i}": array("q", accumulate(dice.randrange(2 * gap_ms) for _ in range(ROWS_PER_SPLIT)))
            for i in range(splits)
        }
    )


def milliseconds_per_plan(logs: LookupLogs, budget: Budget) -> float:
    """Return the median over the first batches of a back-fill, each planned as in a run, in time of the processor."""
    limits = Limits(max_drift_ms=HOUR_MS, budget=budget)
    progress = Progress(dict.fromkeys(logs.times, 0))
    index = TimeIndex(logs)
    taken = []
    gc.freeze()  # a collection during a plan is part of it, but not one of the million records here
    for _ in range(ROUNDS):
        begun = time.process_time()
        planned = plan(find_standing(progress, logs.extents, (), index, limits), None, index, limits)
        taken.append((time.process_time() - begun) * 1000)
        progress = planned.progress
    gc.unfreeze()
    return statistics.median(taken)


def main() -> None:
    """Print the table."""
    print("splits   aligned   with a budget   us per split")
    for splits in (10, 100, 1_000, 10_000):
        logs = random_logs(splits)
        free = milliseconds_per_plan(logs, UNLIMITED)
        tight = milliseconds_per_plan(logs, Budget(rows=splits * ROWS_PER_SPLIT // 60))
        print(f"{splits:6,}{free:8.2f} ms{tight:13.2f} ms{free * 1000 / splits:8.1f} /{tight * 1000 / splits:5.1f}")
        slowest_ms = max(free, tight)
    if slowest_ms > MOST_MS:
        raise SystemExit(f"a plan of {splits:,} splits takes {slowest_ms:.0f} ms, more than {MOST_MS:.0f}")


if __name__ == "__main__":
    main()
