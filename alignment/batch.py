"""Choosing how much of each split one batch reads.

All of it, up to one event time, or by backlog.  Each way takes the *spans* of a plan and returns a
cut for each of them.  ``used`` tells what share of the budget cuts take; more than 1: too much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tidegate.alignment.budget import greatest_within, share
from tidegate.alignment.cuts import Cut, Cutter, Span
from tidegate.alignment.splits import SplitId

__all__ = ["Cuts", "Spans", "Used", "at_ends", "cut_at_one_time", "cut_by_position"]

Spans: TypeAlias = Mapping[SplitId, Span]
Cuts: TypeAlias = Mapping[SplitId, Cut]
Used: TypeAlias = Callable[[Cuts], float]


def at_ends(spans: Spans) -> Cuts:
    """Read everything."""
    return {s: Cut(span.end, None) for s, span in spans.items()}


def cut_at_one_time(spans: Spans, cutter: Cutter, bound_ms: int, used: Used) -> tuple[int, Cuts]:
    """Cut all spans at the bound or, where the budget is smaller, at the greatest time that fits.

    Returns the time and the cuts.  Where no time fits, the least is taken, and the cuts shrunk.
    """
    while True:
        time_ms, cuts, fits = _greatest_time(spans, cutter, bound_ms, used)
        if cutter.confirm(cuts):
            return time_ms, cuts if fits else cut_by_position(spans, cuts, used)


def _greatest_time(spans: Spans, cutter: Cutter, bound_ms: int, used: Used) -> tuple[int, Cuts, bool]:
    """Return the greatest time up to the bound that fits the budget, its cuts, and True.

    When none fits: the least time that reads anything, its cuts, and False.
    """
    low_ms = min((span.head.event_time_ms for span in spans.values()), default=bound_ms)
    tried: dict[int, Cuts] = {low_ms: {}}

    def used_at(time_ms: int) -> float:
        tried[time_ms] = cutter.candidates(time_ms)
        return used(tried[time_ms])

    def sample(from_ms: int, to_ms: int, share: float) -> int:
        time_ms = cutter.sample(tried[from_ms], tried[to_ms], share)
        return (from_ms + to_ms) // 2 if time_ms is None else time_ms

    used_at_bound = used_at(bound_ms)
    if used_at_bound <= 1:
        return bound_ms, tried[bound_ms], True
    time_ms = greatest_within(used_at, low_ms, bound_ms, used_at_bound, sample)
    if time_ms is not None:
        return time_ms, tried[time_ms], True
    return low_ms + 1, tried[low_ms + 1], False


def cut_by_position(spans: Spans, cuts: Cuts, used: Used) -> Cuts:
    """Shrink a batch until it fits, by backlog and whatever the event times; to one position at least.

    So does Spark's own Kafka source.  A split cut so keeps the time of its head as the lower bound
    of what is next: the watermark waits for it.
    """
    backlog = {s: count for s, cut in cuts.items() if (count := cut.position - spans[s].start) > 0}

    def shrunk(rows: int) -> Cuts:
        made = dict(cuts)
        for split, count in share(backlog, rows).items():
            if count < backlog[split]:
                span = spans[split]
                made[split] = Cut(span.start + count, span.head.event_time_ms, cuts[split].exact)
        return made

    most = sum(backlog.values())
    return shrunk(greatest_within(lambda rows: used(shrunk(rows)), 0, most, used(cuts), enough=1) or 1)
