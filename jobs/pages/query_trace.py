"""From what Spark keeps of a query's batches to the traces of its sources.  Pure.

A report tells of each split the event time of its next record.  Of one that is read to its end
that is none: it is taken to stand where it was last seen, or at the source's watermark, whichever
is later.  Both are lower bounds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from statistics import median_low

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Json
from tidegate.jobs.pages.axis import Axis, utc_times
from tidegate.jobs.pages.trace import Band, Trace
from tidegate.sources.progress import SourceProgress, SplitDetail, report_in

__all__ = ["Batch", "SourceRun", "source_runs", "traced"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_MOST_LINES = 12
_LEAST_SPAN_MS = 1000
_PARTITION = re.compile(r"-\d+$")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of one source.

    rows: of this source, as they were planned.
    seconds: of the query's whole batch, from trigger to commit.
    spark_watermark_ms: what Spark dropped rows by; None: it has no watermark yet, or needs none.
    said: the plan of the batch.
    """

    number: int
    rows: int
    seconds: float
    spark_watermark_ms: int | None
    said: SourceProgress


@dataclass(frozen=True, slots=True)
class SourceRun:
    """What Spark kept of one source of a query.

    name: of what is read.
    batches: those in which the query read something, from this source or another.
    last: what the source said last.
    """

    name: str
    batches: tuple[Batch, ...]
    last: SourceProgress


def source_runs(progresses: Sequence[Json]) -> list[SourceRun]:
    """Return a run for each tidegate source, in Spark's order.

    progresses: the JSON of each StreamingQueryProgress, the oldest first.
    """
    batches: dict[int, list[Batch]] = {}
    last: dict[int, SourceProgress] = {}
    for progress in progresses:
        seconds, watermark_ms = progress["batchDuration"] / 1000, _spark_watermark(progress)
        found = {}
        for index, source in enumerate(progress["sources"]):
            if (report := report_in(source)) is not None:
                last[index] = said = SourceProgress.from_report(report)
                # Spark's own count tells what the sink made of them: nothing, or all of it twice.
                rows = said.planned_rows if source["startOffset"] != source["endOffset"] else 0
                found[index] = Batch(progress["batchId"], rows, seconds, watermark_ms, said)
        if any(batch.rows for batch in found.values()):
            for index, batch in found.items():
                batches.setdefault(index, []).append(batch)
    return [SourceRun(said.reads, tuple(batches.get(index, ())), said) for index, said in sorted(last.items())]


def traced(run: SourceRun) -> tuple[Trace, Axis | None]:
    """Return what a picture of a run with at least one batch shows, and its axis; None: no event time is known.

    Up to 12 splits are lines, more are a band.  Bounds and watermarks far from all splits are left out, for
    they would make the picture flat.
    """
    batches = run.batches
    each = {
        split: _reached(split, batches) for split in sorted({s for b in batches for s in b.said.by_split}, key=_order)
    }
    reached = {split: times for split, times in each.items() if times[-1] is not None}
    band = None
    if not all(batch.said.by_split for batch in batches):
        reached, band = {}, _spreads(batches)
    elif len(reached) > _MOST_LINES:
        reached, band = {}, _band(list(reached.values()))
    drawn = [*reached.values(), *([band.slowest, band.fastest] if band is not None else [])]
    known = [at_ms for times in drawn for at_ms in times if at_ms is not None]
    stairs = (
        [_ms(batch.said.bound) for batch in batches],
        [batch.spark_watermark_ms for batch in batches],
        [_ms(batch.said.watermark) for batch in batches],
    )
    axis = _axis(known, [at_ms for times in stairs for at_ms in times if at_ms is not None]) if known else None
    bound, spark_watermark, source_watermark = (_within(axis, times) for times in stairs)
    paused = {s: frozenset(i for i, b in enumerate(batches) if _state(b, s) == "paused") for s in reached}
    numbers = [batch.number for batch in batches]
    return Trace(numbers, reached, bound, spark_watermark, paused, source_watermark, band), axis


def _reached(split: SplitId, batches: Sequence[Batch]) -> list[int | None]:
    """Return where a split stood before the first batch, of which there is at least one, and after each."""
    first = batches[0].said
    times = [_before(first.by_split.get(split), _ms(first.low))]
    for batch in batches:
        times.append(_after(times[-1], batch.said.by_split.get(split), _ms(batch.said.watermark)))
    return times


def _before(detail: SplitDetail | None, low_ms: int | None) -> int | None:
    """Return where a split stood before a batch: at the batch's low at least, if the batch reads it."""
    if detail is None or detail.state not in {"reading", "unread", "paused"}:
        return None
    next_ms = _ms(detail.next_event_time)
    return low_ms if detail.state == "reading" and low_ms is not None else next_ms


def _after(before_ms: int | None, detail: SplitDetail | None, watermark_ms: int | None) -> int | None:
    if detail is None:
        return before_ms
    if detail.next_event_time is not None:
        return _ms(detail.next_event_time)
    if detail.state == "reading" or (detail.state == "caught up" and before_ms is not None):
        return max((at_ms for at_ms in (before_ms, watermark_ms) if at_ms is not None), default=None)
    return before_ms


def _band(reached: Sequence[Sequence[int | None]]) -> Band:
    stood = [[at_ms for at_ms in times if at_ms is not None] for times in zip(*reached, strict=True)]
    return Band(
        [min(times, default=None) for times in stood],
        [median_low(times) if times else None for times in stood],
        [max(times, default=None) for times in stood],
    )


def _spreads(batches: Sequence[Batch]) -> Band:
    """Return between which event times the splits stood, by what each plan says of all of them."""
    # The low of the first batch tells where the slowest stood before it; of the others nothing does.
    first = next((batch.said.spread for batch in batches if batch.said.spread is not None), None)
    slowest, median, fastest = [_ms(batches[0].said.low)], [_ms(first and first[1])], [_ms(first and first[2])]
    for batch in batches:
        # When all is read, no split has a next event time: all stand at the watermark at least.
        spread = batch.said.spread or (batch.said.watermark,) * 3
        for line, time in zip((slowest, median, fastest), spread, strict=True):
            line.append(_ms(time))
    return Band(slowest, median, fastest)


def _axis(reached: Sequence[int], others: Sequence[int]) -> Axis:
    """Return an axis of all that was reached, and of what else lies no further from it than it is long."""
    begin_ms, end_ms = min(reached), max(reached)
    span_ms = max(_LEAST_SPAN_MS, end_ms - begin_ms)
    near = [at_ms for at_ms in others if begin_ms - span_ms <= at_ms <= end_ms + span_ms]
    return utc_times(min([begin_ms, *near]), max([end_ms, *near]))


def _within(axis: Axis | None, times: Sequence[int | None]) -> list[int | None]:
    if axis is None:
        return []
    return [at_ms if at_ms is not None and axis.begin_ms <= at_ms <= axis.end_ms else None for at_ms in times]


def _state(batch: Batch, split: SplitId) -> str | None:
    detail = batch.said.by_split.get(split)
    return None if detail is None else detail.state


def _spark_watermark(progress: Json) -> int | None:
    """Return Spark's watermark; before any row it is the epoch, which is none."""
    text = progress.get("eventTime", {}).get("watermark")
    return None if text is None else _ms(datetime.fromisoformat(text.replace("Z", "+00:00"))) or None


def _order(split: SplitId) -> tuple[str, int]:
    """Let partition 2 come before partition 10."""
    number = _PARTITION.search(split)
    return (split, 0) if number is None else (split[: number.start()], int(number[0][1:]))


def _ms(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // _MS
