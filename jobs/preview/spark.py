"""What Spark does with splits: the batches of its Kafka source, and the rows that a windowed aggregation drops.

Pure logic, as Spark 4.2 has it:

- ``KafkaMicroBatchStream.rateLimit`` shares maxOffsetsPerTrigger by what each partition has unread.
- The watermark after a batch is the greatest event time so far, minus the delay, and at least 0.
- Late rows are found by the watermark of the batch before (``WatermarkPropagator``): it knows no row of the last batch.
- A window's rows are late if the end of the window is not after that watermark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.alignment.splits import Positions, SplitId
from tidegate.jobs.preview.history import History

__all__ = ["Account", "account", "by_backlog"]


@dataclass(frozen=True, slots=True)
class Account:
    """What becomes of the rows of all splits.

    rows: the number of positions in each batch.
    lost: the rows of each split that are dropped.
    least_delay_ms: the least delay with which none is.
    lead_ms: the furthest that a batch went ahead of the slowest split before it.
    """

    rows: tuple[int, ...]
    lost: Mapping[SplitId, int]
    least_delay_ms: int
    lead_ms: int


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


def account(
    histories: Mapping[SplitId, History], batches: Iterable[Positions], delay_ms: int, window_ms: int
) -> Account:
    """Follow batches through a tumbling window of ``window_ms``, in append mode.

    batches: the positions after each batch.
    """
    at: Positions = {split: history.start for split, history in histories.items()}
    lost = dict.fromkeys(histories, 0.0)
    rows: list[int] = []
    least_delay_ms = lead_ms = 0
    greatest: list[int] = []  # after each batch
    for after in batches:
        ranges = {s: (at[s], end) for s, end in after.items() if end > at[s]}
        if not ranges:
            continue
        known_ms = greatest[-2] if len(greatest) > 1 else None
        watermark_ms = 0 if known_ms is None else max(0, known_ms - delay_ms)
        for split, (start, end) in ranges.items():
            lost[split] += histories[split].rows_before(start, end, watermark_ms // window_ms * window_ms)
        if known_ms is not None:
            oldest_ms = min(histories[s].least_ms(*part) for s, part in ranges.items())
            # A window that ends with the watermark is late, so the delay needs 1 ms more.
            least_delay_ms = max(least_delay_ms, known_ms - (oldest_ms // window_ms + 1) * window_ms + 1)
        newest_ms = max(histories[s].greatest_ms(*part) for s, part in ranges.items())
        greatest.append(max([newest_ms, *greatest[-1:]]))
        rows.append(sum(end - start for start, end in ranges.values()))
        lead_ms = max(lead_ms, newest_ms - min(h.time_ms(at[s]) for s, h in histories.items() if at[s] < h.end))
        at = after
    return Account(tuple(rows), {s: round(number) for s, number in lost.items()}, least_delay_ms, lead_ms)
