"""Chooses how much of each split one batch reads.

A batch reads everything, everything before one event time, shares by backlog, or what a common cut leaves.  ``used``
returns the share of the budget that cuts take; more than 1 is too much.  This is rule 3 of ``docs/planning.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tidegate.alignment.budget import greatest_within, share
from tidegate.alignment.cuts import Cut, Cutter, Span
from tidegate.alignment.splits import Positions, SplitId

Spans: TypeAlias = Mapping[SplitId, Span]
Cuts: TypeAlias = Mapping[SplitId, Cut]
Used: TypeAlias = Callable[[Cuts], float]


def at_ends(spans: Spans) -> Cuts:
    """Read everything."""
    return {s: Cut(span.end, None) for s, span in spans.items()}


def at_starts(spans: Spans) -> Cuts:
    """Read nothing."""
    return {s: Cut(span.start, span.head.event_time_ms) for s, span in spans.items()}


def cut_at_one_time(spans: Spans, cutter: Cutter, bound_ms: int, used: Used) -> tuple[int, Cuts]:
    """Cut all spans at the bound or, if the budget is smaller, at the greatest time that fits.

    Returns the time and the cuts.  If no time fits, the earliest is used, and the cuts are shrunk.
    """
    while True:
        time_ms, cuts, fits = _greatest_time(spans, cutter, bound_ms, used)
        cuts = cutter.sharpened(time_ms, cuts)
        if cutter.confirm(time_ms, cuts):
            starts = {split: span.start for split, span in spans.items()}
            return time_ms, cuts if fits else cut_by_position(cuts, starts, spans, used)


def _greatest_time(spans: Spans, cutter: Cutter, bound_ms: int, used: Used) -> tuple[int, Cuts, bool]:
    """Return the greatest time up to the bound that fits the budget, its cuts, and True.

    If none fits: the earliest time that reads anything, its cuts, and False.
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
    # Rule 3: when nothing fits, the slowest splits are also cut by position.
    return low_ms + 1, tried[low_ms + 1], False


def cut_by_position(cuts: Cuts, starts: Positions, spans: Spans, used: Used, *, least: int = 1) -> Cuts:
    """Shrink a batch by backlog until it fits, ignoring event times; keep at least ``least`` positions.

    Spark's own Kafka source does the same.  The time of a split's head, if it has one, stays the lower bound for its
    next record: the watermark waits for it.
    """
    used_by_all = used(cuts)
    if used_by_all <= 1:
        return cuts
    most = sum(_backlog(cuts, starts).values())
    rows = greatest_within(lambda rows: used(_shrunk(cuts, starts, spans, rows)), 0, most, used_by_all, enough=1)
    return _shrunk(cuts, starts, spans, rows or least)


def what_is_left(cuts: Cuts, others: Cuts, starts: Positions, spans: Spans, used: Used) -> Cuts:
    """Shrink ``others`` to the budget that a batch leaves; to nothing if the batch takes the whole budget."""
    taken = used(cuts)
    if taken >= 1:
        return _shrunk(others, starts, spans, 0)
    reads = any(cut.position > starts[s] for s, cut in cuts.items())

    def share_of_what_is_left(left_cuts: Cuts) -> float:
        return (used({**cuts, **left_cuts}) - taken) / (1 - taken)

    return cut_by_position(others, starts, spans, share_of_what_is_left, least=0 if reads else 1)


def _backlog(cuts: Cuts, starts: Positions) -> dict[SplitId, int]:
    return {s: count for s, cut in cuts.items() if (count := cut.position - starts[s]) > 0}


def _shrunk(cuts: Cuts, starts: Positions, spans: Spans, rows: int) -> Cuts:
    """Shrink cuts by backlog to a total number of positions."""
    backlog, shrunk = _backlog(cuts, starts), dict(cuts)
    for split, count in share(backlog, rows).items():
        if count < backlog[split]:
            next_ms = spans[split].head.event_time_ms if split in spans else None
            shrunk[split] = Cut(starts[split] + count, next_ms, cuts[split].exact)
    return shrunk
