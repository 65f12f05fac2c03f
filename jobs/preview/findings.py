"""What a preview finds: the batches that Spark's own source and tidegate would make, and the rows that windows drop.

Pure logic, as Spark 4.2 has it:

- ``KafkaMicroBatchStream.rateLimit`` shares maxOffsetsPerTrigger by what each partition has unread.
- ``FileStreamSource`` reads files in the order of their modification, up to maxFilesPerTrigger or maxBytesPerTrigger.
- The watermark after a batch is the greatest event time so far, minus the delay, and at least 0.
- Late rows are found by the watermark of the batch before (``WatermarkPropagator``): it knows no row of the last batch.
- A window's rows are late if the end of the window is not after that watermark.

The batches of tidegate are those of its own planner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from tidegate.alignment.budget import Budget, Cost, CostOf, split_rows
from tidegate.alignment.durations import milliseconds
from tidegate.alignment.index import Peeking, TimeIndex
from tidegate.alignment.plan import Limits, Observed, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Extents, Head, Horizon, Positions, SplitId
from tidegate.jobs.preview.seen import History, Seen


@dataclass(frozen=True, slots=True)
class Prediction:
    """What becomes of the rows of all splits.

    rows: the number of records in each batch.
    left: the number of records after the last batch; 0: all batches were followed.
    lost: the rows of each split that are dropped.
    least_delay_ms: the least delay with which none is, however the rows of a split are out of order.
    lead_ms: the furthest that a batch went ahead of the slowest split before it.
    first_ms, span_ms: the event time that the first batch spans, and all batches.
    step_ms: the furthest that a later batch moved the greatest event time.
    """

    rows: tuple[int, ...]
    left: int
    lost: Mapping[SplitId, int]
    least_delay_ms: int
    lead_ms: int
    first_ms: int
    span_ms: int
    step_ms: int

    def open_windows(self, delay_ms: int, window_ms: int) -> int:
        """Return how many windows of each key are in state after a batch, at most, with a delay."""
        return min(self.span_ms, max(self.first_ms, self.step_ms + delay_ms)) // window_ms + 2


def by_backlog(histories: Mapping[SplitId, History], limit: int | None) -> Iterator[Positions]:
    """Yield the positions after each batch of Spark's own source.

    limit: maxOffsetsPerTrigger; None: one batch reads everything.
    """
    at = {split: history.start for split, history in histories.items()}
    while unread := {s: size for s, history in histories.items() if (size := history.end - at[s]) > 0}:
        total = sum(unread.values())
        for split, size in unread.items():
            share = size if limit is None else limit * (size / total)
            at[split] += min(size, math.ceil(share) if share < 1 else math.floor(share))
        yield dict(at)


def by_modification(
    histories: Mapping[SplitId, History], rows: Iterable[int], sizes: Iterable[int], budget: Budget
) -> Iterator[Positions]:
    """Yield the positions after each batch of Spark's own file source.

    histories: the rows of parts of the files; positions count the rows of all.
    rows, sizes: those of each file, in the order of modification; sizes are in bytes.
    """
    files = size = end = 0
    for rows_of_file, size_of_file in zip(rows, sizes, strict=True):
        grown = Cost(files=files + 1, bytes=size + size_of_file)
        if files and budget.used(grown) > 1:
            yield {split: min(max(end, history.start), history.end) for split, history in histories.items()}
            files = size = 0
        files, size, end = files + 1, size + size_of_file, end + rows_of_file
    yield {split: history.end for split, history in histories.items()}


def outcome(
    histories: Mapping[SplitId, History], batches: Iterable[Positions], delay_ms: int, window_ms: int
) -> Prediction:
    """Follow batches through a tumbling window of ``window_ms``, in append mode.

    batches: the positions after each batch.
    """
    at: Positions = {split: history.start for split, history in histories.items()}
    weights = {split: history.rows_of_each for split, history in histories.items()}
    least_ms = {s: history.least_ms if history.disorder_ms else history.times_ms for s, history in histories.items()}
    lost = dict.fromkeys(histories, 0.0)
    rows: list[int] = []
    least_delay_ms = lead_ms = first_ms = step_ms = 0
    greatest: list[int] = []  # after each batch
    oldest_ms: int | None = None
    for after in batches:
        if all(after[s] == at[s] for s in histories):
            continue
        places = {s: slice(history.place(at[s]), history.place(after[s])) for s, history in histories.items()}
        held = {s: weights[s][places[s]] > 0 for s in histories}
        ranges = {s: histories[s].times_ms[places[s]][held[s]] for s in histories}
        read = sum(float(weights[s][places[s]].sum()) for s in histories)
        watermark_ms = max(0, greatest[-2] - delay_ms) if len(greatest) > 1 else 0
        for split, times in ranges.items():
            is_late = times < watermark_ms // window_ms * window_ms
            lost[split] += float(weights[split][places[split]][held[split]][is_late].sum())
        every = np.concatenate(list(ranges.values()))
        if len(every) and len(greatest) > 1:
            # Samples draw which rows are out of order, but any row may be.
            oldest_here_ms = min(int(least_ms[s][places[s]][held[s]].min()) for s in histories if len(ranges[s]))
            # A window that ends with the watermark is late, so the delay needs 1 ms more.
            first_end_ms = (oldest_here_ms // window_ms + 1) * window_ms
            least_delay_ms = max(least_delay_ms, greatest[-2] - first_end_ms + 1)
        newest_ms = int(every.max(initial=greatest[-1] if greatest else 0))
        heads = [int(h.times_ms[h.place(at[s])]) for s, h in histories.items() if at[s] < h.end]
        lead_ms = max(lead_ms, newest_ms - min(heads))
        oldest_ms = int(every.min(initial=newest_ms if oldest_ms is None else oldest_ms))
        if greatest:
            step_ms = max(step_ms, newest_ms - greatest[-1])
        else:
            first_ms = newest_ms - oldest_ms
        greatest.append(max([newest_ms, *greatest[-1:]]))
        rows.append(round(read))
        at = after
    left = math.ceil(sum(float(weights[s][h.place(at[s]) :].sum()) for s, h in histories.items() if at[s] < h.end))
    return Prediction(
        rows=tuple(rows),
        left=left,
        lost={s: round(number) for s, number in lost.items()},
        least_delay_ms=least_delay_ms,
        lead_ms=lead_ms,
        first_ms=first_ms,
        span_ms=0 if oldest_ms is None else greatest[-1] - oldest_ms,
        step_ms=step_ms,
    )


MOST_PLANS = 500_000  # of single splits: some ten seconds
_LEAST_SPLITS = 10  # a plan of fewer takes as long


def aligned(
    source: Peeking,
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


class _Index(Peeking):
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


@dataclass(frozen=True, slots=True)
class SplitPreview:
    """One split of a preview.

    first_ms, last_ms: the event time of its first row, and the greatest one, in ms since the epoch; None: it is empty.
    rows: its rows, from its positions and the share of positions that hold a record.
    lost_by_spark: the rows that Spark would drop.
    """

    id: SplitId
    first_ms: int | None
    last_ms: int | None
    rows: int
    lost_by_spark: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What a windowed count would lose with Spark's own source, and what tidegate would do with the same rows.

    reads: the topics and servers, or the path.
    watermark_delay, window: those of the query.
    budget: maxOffsetsPerTrigger, or maxFilesPerTrigger and maxBytesPerTrigger.  Without a limit, Spark reads everything
        in one batch.
    max_drift: the one of the source, or one that gives at least ten batches, of a million rows at most on average.
        None: the source has no rows.
    splits: all splits, in the order of their names.
    spark: what Spark's own source would do.
    limited: the same within ``limited_budget``.
    limited_budget: ``budget``, or the size of the largest batch of tidegate.
    tidegate: what tidegate would do with this drift; only its first batches, if there are many.
    """

    reads: str
    watermark_delay: timedelta
    window: timedelta
    budget: Budget
    max_drift: timedelta | None
    splits: tuple[SplitPreview, ...]
    seen: Seen
    spark: Prediction
    limited: Prediction
    limited_budget: Budget
    tidegate: Prediction

    @property
    def rows(self) -> int:
        """The rows of all splits."""
        return sum(split.rows for split in self.splits)

    @property
    def lost_by_spark(self) -> int:
        """The rows that Spark would drop as late."""
        return sum(self.spark.lost.values())

    @property
    def least_delay(self) -> timedelta:
        """The least watermark delay with which Spark would drop none, and a thousandth more."""
        return timedelta(milliseconds=enough(self.spark))

    @property
    def least_limited_delay(self) -> timedelta:
        """The same within ``limited_budget``."""
        return timedelta(milliseconds=enough(self.limited))

    def to_json(self) -> dict[str, Any]:
        """Return what ``tidegate preview --json`` prints, with times in ms since the epoch, and durations in ms."""
        return {
            "rows": self.rows,
            "lostBySpark": self.lost_by_spark,
            "leastDelay": enough(self.spark),
            "openWindows": self.spark.open_windows(enough(self.spark), milliseconds(self.window)),
            "judgedBy": self.seen.judged_by,
            "batches": len(self.spark.rows),
            "window": milliseconds(self.window),
            "watermarkDelay": milliseconds(self.watermark_delay),
            "rowsPerBatch": self.budget.rows,
            "filesPerBatch": self.budget.files,
            "bytesPerBatch": self.budget.bytes,
            "tidegate": {
                "maxDrift": None if self.max_drift is None else milliseconds(self.max_drift),
                "complete": not self.tidegate.left,
                "rows": sum(self.tidegate.rows),
                "batches": len(self.tidegate.rows),
                "largestBatch": max(self.tidegate.rows, default=0),
                "leastDelay": enough(self.tidegate),
                "openWindows": self.tidegate.open_windows(enough(self.tidegate), milliseconds(self.window)),
            },
            "splits": [
                {
                    "id": split.id,
                    "first": split.first_ms,
                    "last": split.last_ms,
                    "rows": split.rows,
                    "lostBySpark": split.lost_by_spark,
                    "sampled": split.id in self.seen.blind,
                }
                for split in self.splits
            ],
        }


def enough(followed: Prediction) -> int:
    """Return the least delay in ms, and a thousandth more: event times between two lookups are interpolated."""
    return followed.least_delay_ms + -(-followed.least_delay_ms // 1000)
