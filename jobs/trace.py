"""What a picture of a run shows: where every split stood in event time after every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.alignment.splits import SplitId
from tidegate.jobs.survey import Stretch
from tidegate.jobs.watch import BatchProgress

__all__ = ["Trace", "trace"]

_PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Trace:
    """Event times in ms over the n batches that read something.

    reached: for each split n + 1 times: before the first batch and after each.
    bound, watermark: n times: what each batch was planned or filtered by; None: there was none.
    paused: for each split the batches, from 0, during which it was paused.
    """

    reached: Mapping[SplitId, Sequence[int]]
    bound: Sequence[int | None]
    watermark: Sequence[int | None]
    paused: Mapping[SplitId, frozenset[int]]


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
        reached,
        bound=[batch.bound_ms for batch in read],
        # Before any row Spark's watermark is the epoch.
        watermark=[batch.spark_watermark_ms or None for batch in read],
        paused={s: frozenset(i for i, b in enumerate(read) if b.splits[s].state == _PAUSED) for s in reached},
    )
