"""Made-up progress for the pure parts."""

from tidegate.jobs.demo.windowed_count import CountRun
from tidegate.jobs.survey import Stretch
from tidegate.jobs.watch import BatchProgress, SplitProgress

HOUR = 3_600_000
HISTORY = {"orders-0": Stretch(0, 100, 0, 4 * HOUR), "orders-1": Stretch(0, 50, 2 * HOUR, 4 * HOUR)}


def batch(number=0, *, rows=50, next_ms=(HOUR, 2 * HOUR), states=("reading", "paused"), left=(50, 50), **fields):
    splits = {
        split: SplitProgress(state, time_ms, rows_left)
        for split, state, time_ms, rows_left in zip(HISTORY, states, next_ms, left, strict=True)
    }
    return BatchProgress(number, rows, 2.0, {}, splits, sum(left), **fields)


def unaligned():
    """Return a run in which the first split runs below the watermark and loses 60 of 150 rows."""
    batches = (
        batch(0, next_ms=(HOUR, 3 * HOUR), states=("reading", "reading"), spark_watermark_ms=0, state_rows=9),
        batch(1, next_ms=(2 * HOUR, None), states=("reading", "reading"), spark_watermark_ms=3 * HOUR, dropped_rows=4),
        batch(2, next_ms=(None, None), states=("reading", "caught up"), spark_watermark_ms=4 * HOUR, dropped_rows=2),
        batch(3, rows=0, next_ms=(None, None), states=("caught up", "caught up"), spark_watermark_ms=4 * HOUR),
    )
    return CountRun("unaligned", 150, counted=70, open=20, batches=batches, seconds=3.0)


def aligned():
    """Return a run that pauses the second split for two batches and loses nothing."""
    batches = (
        batch(0, next_ms=(HOUR, 2 * HOUR), bound_ms=HOUR),
        batch(1, next_ms=(2 * HOUR, 2 * HOUR), bound_ms=2 * HOUR, spark_watermark_ms=HOUR),
        batch(2, next_ms=(None, None), states=("reading", "reading"), bound_ms=4 * HOUR, spark_watermark_ms=2 * HOUR),
    )
    return CountRun("aligned", 150, counted=140, open=10, batches=batches, seconds=4.0)
