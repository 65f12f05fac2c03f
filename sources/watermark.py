"""Flink's watermark for Spark: the source's own, which is a minimum over its splits."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidegate.errors import OptionError
from tidegate.sources.bridge import SOURCE_WATERMARK

_IS_DATA = "__is_data"
_LEAST_MICROSECONDS = -(2**63) + 1

__all__ = ["with_source_watermark"]


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
    data = [f.col(f"`{name}`").isNotNull() for name in rows.columns if name != SOURCE_WATERMARK]
    # The data columns count as they are now, not with the time that stands in below.
    stream = rows.withColumn(_IS_DATA, reduce(or_, data))
    column = SOURCE_WATERMARK
    if event_time is not None:
        column = event_time
        at_least = f.col(SOURCE_WATERMARK) + f.expr(f"interval {delay}")
        stream = stream.withColumn(event_time, f.when(f.col(_IS_DATA), f.col(f"`{event_time}`")).otherwise(at_least))
    # The filter names the watermark's column.  Otherwise Spark would push it below the watermark's node, which would
    # never see the rows with the watermark.
    time = f.col(f"`{column}`")
    marked = stream.withWatermark(column, delay).where(f.col(_IS_DATA) | time.isNull()).drop(_IS_DATA)
    if event_time is None:
        return marked
    # An inner join infers such a filter, too: its keys are not null.  So each other column also names the time, in a
    # way that changes nothing: no row has the least of all times.
    never = time.eqNullSafe(f.timestamp_micros(f.lit(_LEAST_MICROSECONDS)))
    return marked.select(*(f.col(f"`{n}`") if n == column else _unless(never, n) for n in marked.columns))


def _unless(never: Column, name: str) -> Column:
    return f.when(~never, f.col(f"`{name}`")).alias(name)
