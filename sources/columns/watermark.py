"""Flink's watermark for Spark: the source's own, which is a minimum over its splits."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidegate.errors import OptionError
from tidegate.sources.tasks import END_OF_TIME_MS, SOURCE_WATERMARK, WATERMARK_ROW_US

_WATERMARK = "__watermark"
_LEAST_MICROSECONDS = -(2**63) + 1
_EPOCH = "timestamp_ntz'1970-01-01'"  # of no time zone

__all__ = ["follow_source_watermark", "later", "with_source_watermark"]


def with_source_watermark(rows: DataFrame, event_time: str | None = None, delay: str = "1 millisecond") -> DataFrame:
    """Let Spark's watermark follow the source's, and drop the rows that only hold it.

    rows: a stream of a tidegate source with ``includeSourceWatermark``, as ``load`` returns it; with ``watermarkRows``
        too, the watermark also moves while no data comes.
    event_time: the time column of windows or joins: Spark's watermark on it is the greatest time less ``delay``, and at
        least the source's own.  A source that waits for the others of its group then does not hold their state.  None:
        Spark's watermark is the source's, less one millisecond, on the column ``source_watermark``, for the event-time
        timers of transformWithState.
    delay: as in ``withWatermark``.

    Raises OptionError if a column is missing.
    """
    for name in (SOURCE_WATERMARK, event_time or SOURCE_WATERMARK):
        if name not in rows.columns:
            raise OptionError(
                f"the DataFrame has no column {name!r}; set includeSourceWatermark, and use it before other steps"
            )
    stream, column = rows, SOURCE_WATERMARK
    if event_time is not None:
        column = event_time
        at_least = later(f.col(SOURCE_WATERMARK), _milliseconds(delay))
        stream = stream.withColumn(event_time, f.when(_is_data(), f.col(f"`{event_time}`")).otherwise(at_least))
    marked = _without_watermark_rows(stream.withWatermark(column, delay), column)
    return marked if event_time is None else _guarded(marked, column)


def follow_source_watermark(rows: DataFrame, ahead_ms: int) -> DataFrame:
    """Let Spark's watermark be the source's plus ``ahead_ms``, and drop the rows with only the watermark.

    rows: as ``with_source_watermark`` has it.
    ahead_ms: how far Spark's is ahead of the source's: Spark's own operators fire a window later than Flink does.

    Other than there, any steps may follow, and no operator of Spark finds a column by which it drops late rows.
    """
    ahead = later(f.col(SOURCE_WATERMARK), ahead_ms)
    # Spark has no name for a later time.  Its least() leaves out a null, which is a watermark that is not there yet.
    watermark = f.when(ahead.isNotNull(), f.least(ahead, f.timestamp_millis(f.lit(END_OF_TIME_MS))))
    stream = rows.withColumn(_WATERMARK, watermark)
    marked = _without_watermark_rows(stream.withWatermark(_WATERMARK, "0 seconds"), _WATERMARK)
    return _guarded(marked, _WATERMARK).drop(_WATERMARK)


def later(time: Column, by_ms: int | Column) -> Column:
    """Return timestamps that are so much later, for each row of a stream.

    Spark adds an interval by the calendar of the session's time zone, with new objects for each row; there, a day may
    have 23 or 25 hours.  This is one addition.
    """
    return f.timestamp_micros(f.unix_micros(time) + f.lit(by_ms * 1000))


def _milliseconds(interval: str) -> Column:
    """Return the whole milliseconds of an interval, as ``withWatermark`` takes it: a day has 24 hours."""
    return f.expr(f"timestampdiff(MILLISECOND, {_EPOCH}, {_EPOCH} + interval {interval})")


def _is_data() -> Column:
    # Without a watermark there is nothing that a row could hold alone.
    since_ms = f.coalesce(f.pmod(f.unix_micros(f.col(SOURCE_WATERMARK)), f.lit(1000)), f.lit(0))
    return since_ms != f.lit(WATERMARK_ROW_US)


def _without_watermark_rows(marked: DataFrame, column: str) -> DataFrame:
    # The filter names the watermark's column.  Otherwise Spark would push it below the watermark's node, which would
    # never see the rows with the watermark.
    return marked.where(_is_data() | f.col(f"`{column}`").isNull())


def _guarded(marked: DataFrame, column: str) -> DataFrame:
    # Filters that follow would go there, too, and so would those that an inner join infers: its keys are not null.  So
    # each other column also names the time, in a way that changes nothing: no row has the least of all times.
    never = f.col(f"`{column}`").eqNullSafe(f.timestamp_micros(f.lit(_LEAST_MICROSECONDS)))
    return marked.select(*(f.col(f"`{n}`") if n == column else _unless(never, n) for n in marked.columns))


def _unless(never: Column, name: str) -> Column:
    return f.when(~never, f.col(f"`{name}`")).alias(name)
