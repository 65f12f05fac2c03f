"""Made-up progress for the pure parts."""

from datetime import datetime, timezone

from tests.support.progresses import progress, report, source, typed
from tidegate.jobs.demo.windowed_count import CountRun
from tidegate.jobs.pages.trace import Stretch

HOUR = 3_600_000
HISTORY = {"orders-0": Stretch(0, 4 * HOUR), "orders-1": Stretch(2 * HOUR, 4 * HOUR)}


def batch(
    number=0,
    *,
    rows=50,
    next_ms=(HOUR, 2 * HOUR),
    states=("reading", "paused"),
    left=(50, 50),
    by_split=None,
    bound_ms=None,
    watermark_ms=0,
    state_rows=0,
    dropped_rows=0,
):
    """Return the progress of a batch over the splits of HISTORY, or over the given splits."""
    if by_split is None:
        by_split = {split: list(said) for split, *said in zip(HISTORY, states, next_ms, left, strict=True)}
    said = report(bound=bound_ms, plannedRows=rows, rowsRemaining=sum(left), bySplit=by_split)
    spark_watermark = datetime.fromtimestamp(watermark_ms / 1000, timezone.utc)
    return typed(
        progress(
            number,
            source(said, moves=rows > 0, rows=rows),
            batchDuration=2_000,
            stateOperators=[{"numRowsTotal": state_rows, "numRowsDroppedByWatermark": dropped_rows}],
            eventTime={"watermark": f"{spark_watermark:%Y-%m-%dT%H:%M:%S}.000Z"},
        )
    )


def unaligned():
    """Return a run in which the first split runs below the watermark and loses 60 of 150 rows."""
    batches = (
        batch(0, next_ms=(HOUR, 3 * HOUR), states=("reading", "reading"), state_rows=9),
        batch(1, next_ms=(2 * HOUR, None), states=("reading", "reading"), watermark_ms=3 * HOUR, dropped_rows=4),
        batch(2, next_ms=(None, None), states=("reading", "caught up"), watermark_ms=4 * HOUR, dropped_rows=2),
        batch(3, rows=0, next_ms=(None, None), states=("caught up", "caught up"), watermark_ms=4 * HOUR),
    )
    return CountRun("unaligned", 150, counted=70, open=20, batches=batches, seconds=3.0)


def aligned():
    """Return a run that pauses the second split for two batches and loses nothing."""
    batches = (
        batch(0, next_ms=(HOUR, 2 * HOUR), bound_ms=HOUR),
        batch(1, next_ms=(2 * HOUR, 2 * HOUR), bound_ms=2 * HOUR, watermark_ms=HOUR),
        batch(2, next_ms=(None, None), states=("reading", "reading"), bound_ms=4 * HOUR, watermark_ms=2 * HOUR),
    )
    return CountRun("aligned", 150, counted=140, open=10, batches=batches, seconds=4.0)
