"""The runs of a query's sources, and the trace of each: the event time that every split reached after every batch.

A progress has the event time of each split's next record.  A split that is read to its end has no next record.  Its
place is then its last known time or the source's watermark, whichever is later.  Both are lower bounds.  If the
split's history is known, its place is its last record.  Pure logic: from Spark's progress.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from tidegate.alignment.durations import epoch_ms
from tidegate.alignment.splits import SplitId
from tidegate.enumerators.planning.source_progress import SourceProgress, SplitDetail
from tidegate.jobs.pages.layout import Axis, utc_times
from tidegate.sources.progress.query import QueryProgress

_PAUSED = "paused"
_MOST_LINES = 12
_LEAST_SPAN_MS = 1000
_PARTITION = re.compile(r"-\d+$")


class PlannedBatch(NamedTuple):
    """One batch of a query, as one of its sources planned it."""

    query: QueryProgress
    progress: SourceProgress
    rows: int


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The progress that Spark kept of one source of a query.

    batches: the batches in which the query read something, from this source or another.
    """

    name: str
    batches: tuple[PlannedBatch, ...]
    last: SourceProgress


def source_runs(progresses: Sequence[QueryProgress]) -> list[SourceRun]:
    """Return a run for each tidegate source, in Spark's order, from one run's progresses, the oldest first."""
    batches: dict[int, list[PlannedBatch]] = {}
    last: dict[int, SourceProgress] = {}
    for entry in progresses:
        planned = {
            # Spark's count depends on the sink, which may skip rows or read them twice.
            index: PlannedBatch(entry, source.progress, source.progress.planned_rows if source.moved else 0)
            for index, source in enumerate(entry.sources)
            if source.progress is not None
        }
        last |= {index: batch.progress for index, batch in planned.items()}
        if any(batch.rows for batch in planned.values()):
            for index, batch in planned.items():
                batches.setdefault(index, []).append(batch)
    return [SourceRun(shown.reads, tuple(batches.get(index, ())), shown) for index, shown in sorted(last.items())]


class Stretch(NamedTuple):
    """The event times of the first record of a split and of its last one."""

    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Event times in ms over the n batches that read something.

    reached: for each split n + 1 times: before the first batch and after each batch.
    paused: for each split the batches, counted from 0, during which it was paused.
    stairs: n times, or none, one for each batch: the ``bound`` of its plan, the ``source-watermark`` after the plan,
        and the ``watermark`` by which Spark filtered it.
    is_band: the splits are so many that ``reached`` has the ``median``, the ``fastest`` and the ``slowest`` of them.
    """

    batches: Sequence[int]
    reached: Mapping[SplitId, Sequence[int | None]]
    paused: Mapping[SplitId, frozenset[int]]
    stairs: Mapping[str, Sequence[int | None]]
    is_band: bool


def trace(batches: Sequence[PlannedBatch], history: Mapping[SplitId, Stretch] | None = None) -> Trace:
    """Return the trace of at least one batch; splits without a known event time are left out.

    Up to 12 splits are lines; more splits are a band.
    history: the stretch of every split, in the order of their lines, if more than progress is known.
    """
    plans = [batch.progress for batch in batches]
    stretches = {} if history is None else history
    splits = stretches or sorted({split for plan in plans for split in plan.by_split}, key=split_order)
    by_split = {split: _reached_by(split, plans, stretches.get(split)) for split in splits}
    reached = {split: times for split, times in by_split.items() if times[-1] is not None}
    paused = {s: frozenset(i for i, plan in enumerate(plans) if _state(plan, s) == _PAUSED) for s in reached}
    is_band = len(reached) > _MOST_LINES or not all(plan.by_split for plan in plans)
    if is_band:
        reached, paused = _spreads(plans), {}
    stairs = {"bound": [epoch_ms(plan.bound) for plan in plans]}
    stairs["source-watermark"] = [epoch_ms(plan.watermark) for plan in plans]
    stairs["watermark"] = [epoch_ms(batch.query.watermark) for batch in batches]
    return Trace([batch.query.number for batch in batches], reached, paused, stairs, is_band)


def with_axis(run: Trace) -> tuple[Trace, Axis | None]:
    """Return the trace in a picture of a run, and its axis.

    Bounds and watermarks far from all splits are left out, because they would make the picture flat.
    """
    reached = [at_ms for times in run.reached.values() for at_ms in times if at_ms is not None]
    if not reached:
        return run, None
    begin_ms, end_ms = min(reached), max(reached)
    span_ms = max(_LEAST_SPAN_MS, end_ms - begin_ms)
    stairs = [at_ms for times in run.stairs.values() for at_ms in times]
    near = [at_ms for at_ms in stairs if at_ms is not None and begin_ms - span_ms <= at_ms <= end_ms + span_ms]
    axis = utc_times(min([begin_ms, *near]), max([end_ms, *near]))
    return replace(run, stairs={name: _within(axis, times) for name, times in run.stairs.items()}), axis


def _reached_by(split: SplitId, plans: Sequence[SourceProgress], history: Stretch | None = None) -> list[int | None]:
    """Return the event time of a split before the first of at least one plan, and after each."""
    first = plans[0]
    times = [_before(first.by_split.get(split), epoch_ms(first.low)) if history is None else history.begin_ms]
    for plan in plans:
        detail = plan.by_split.get(split)
        if history is not None and detail is not None and detail.next_event_time is None:
            times.append(history.end_ms)
        else:
            times.append(_after(times[-1], detail, epoch_ms(plan.watermark)))
    return times


def _before(detail: SplitDetail | None, low_ms: int | None) -> int | None:
    """Return the event time of a split before a batch: at least the batch's low, if the batch reads it."""
    if detail is None or detail.state not in {"reading", "unread", _PAUSED}:
        return None
    return low_ms if detail.state == "reading" and low_ms is not None else epoch_ms(detail.next_event_time)


def _after(before_ms: int | None, detail: SplitDetail | None, watermark_ms: int | None) -> int | None:
    if detail is None:
        return before_ms
    if detail.next_event_time is not None:
        return epoch_ms(detail.next_event_time)
    if detail.state == "reading" or (detail.state == "caught up" and before_ms is not None):
        return max((at_ms for at_ms in (before_ms, watermark_ms) if at_ms is not None), default=None)
    return before_ms


def _spreads(plans: Sequence[SourceProgress]) -> dict[str, list[int | None]]:
    """Return the range of the splits' event times, by the spread of each plan."""
    # The low of the first batch is the slowest split's time before it; the times of the other splits are unknown.
    first = next((plan.spread for plan in plans if plan.spread is not None), None)
    before: tuple[datetime | None, ...] = (plans[0].low, first and first[1], first and first[2])
    slowest, median, fastest = ([epoch_ms(at)] for at in before)
    for plan in plans:
        # When all is read, no split has a next event time: all are at least at the watermark.
        spread = plan.spread or (plan.watermark,) * 3
        for line, at in zip((slowest, median, fastest), spread, strict=True):
            line.append(epoch_ms(at))
    return {"median": median, "fastest": fastest, "slowest": slowest}


def _within(axis: Axis, times: Sequence[int | None]) -> list[int | None]:
    return [at_ms if at_ms is not None and axis.begin <= at_ms <= axis.end else None for at_ms in times]


def _state(plan: SourceProgress, split: SplitId) -> str | None:
    detail = plan.by_split.get(split)
    return None if detail is None else detail.state


def split_order(split: SplitId) -> tuple[str, int]:
    """Return a key that sorts partition 2 before partition 10."""
    number = _PARTITION.search(split)
    return (split, 0) if number is None else (split[: number.start()], int(number[0][1:]))
