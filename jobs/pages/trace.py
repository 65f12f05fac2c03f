"""What a picture of a run shows: where every split stood in event time after every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.alignment.splits import SplitId
from tidegate.jobs.survey import Stretch
from tidegate.jobs.watch import BatchProgress

__all__ = ["Band", "Trace", "trace"]

_PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Band:
    """Between which event times the splits stood, where there are too many to draw each.

    slowest, median, fastest: n + 1 times, before the first batch and after each; None: not known.
    """

    slowest: Sequence[int | None]
    median: Sequence[int | None]
    fastest: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Trace:
    """Event times in ms over the n batches that read something.

    batches: their numbers.
    reached: for each split n + 1 times: before the first batch and after each; None: not known yet.
    bound, watermark: n times: what each batch was planned by, and filtered by in Spark; None: there was none.
    paused: for each split the batches, counted from 0, during which it was paused.
    source_watermark: n times, after the plan of each batch, or nothing.
    band: instead of ``reached``.
    """

    batches: Sequence[int]
    reached: Mapping[SplitId, Sequence[int | None]]
    bound: Sequence[int | None]
    watermark: Sequence[int | None]
    paused: Mapping[SplitId, frozenset[int]]
    source_watermark: Sequence[int | None] = ()
    band: Band | None = None


def trace(batches: Sequence[BatchProgress], history: Mapping[SplitId, Stretch]) -> Trace:
    """Return the trace of a run over the whole of a history; splits without records are left out."""
    read = [batch for batch in batches if batch.rows]
    reached: dict[SplitId, list[int]] = {}
    for split, stretch in history.items():
        if stretch.begin_ms is None or stretch.end_ms is None:
            continue
        reached[split] = [stretch.begin_ms]
        for batch in read:
            next_ms = batch.splits[split].next_ms
            reached[split].append(stretch.end_ms if next_ms is None else next_ms)
    return Trace(
        [batch.number for batch in read],
        reached,
        bound=[batch.bound_ms for batch in read],
        # Before any row Spark's watermark is the epoch.
        watermark=[batch.spark_watermark_ms or None for batch in read],
        paused={s: frozenset(i for i, b in enumerate(read) if b.splits[s].state == _PAUSED) for s in reached},
    )
