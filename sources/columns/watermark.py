"""Flink's watermark for Spark: the source's own, which is a minimum over its splits."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidegate.errors import OptionError
from tidegate.sources.tasks import ADD_ON_WATERMARK, SOURCE_WATERMARK, WATERMARK_ROW_US

_EPOCH = "timestamp_ntz'1970-01-01'"  # of no time zone
_DAYS = {"month": 31, "year": 12 * 31}
_MONTHS = re.compile(r"(\d+)\s+(month|year)s?\b", re.IGNORECASE)


def with_source_watermark(rows: DataFrame, event_time: str | None = None, delay: str = "1 millisecond") -> DataFrame:
    """Let Spark's watermark follow the source's watermark, and drop the rows that only hold it.

    rows: a stream of a tidegate source with ``sourceWatermark``, as ``load`` returns it.  With ``rows``, the
        watermark also moves while no data comes.
    event_time: the time column of windows or joins.  Spark's watermark on it is the greatest time less ``delay``, and
        at least the source's watermark.  So a source that waits for the others of its group does not hold their state.
        None: Spark's watermark is on the column ``source_watermark``, one millisecond behind the source's, for the
        event-time timers of transformWithState.
    delay: as in ``withWatermark``.

    Raises OptionError if a column is missing.
    """
    for name in (SOURCE_WATERMARK, event_time or SOURCE_WATERMARK):
        if name not in rows.columns:
            raise OptionError(
                f"the DataFrame has no column {name!r}; set sourceWatermark, and use it before other steps"
            )
    stream, column = rows, SOURCE_WATERMARK
    if event_time is not None:
        column = event_time
        at_least = later(f.col(SOURCE_WATERMARK), _milliseconds(delay))
        stream = stream.withColumn(event_time, f.when(_is_data(), f.col(f"`{event_time}`")).otherwise(at_least))
    return _without_watermark_rows(stream.withWatermark(column, delay))


def follow_add_on_watermark(rows: DataFrame) -> DataFrame:
    """Let Spark's watermark follow the column ``tasks.ADD_ON_WATERMARK``, and drop the rows with only that column."""
    return _without_watermark_rows(rows.withWatermark(ADD_ON_WATERMARK, "0 seconds"), ADD_ON_WATERMARK)


def later(time: Column, by_ms: int | Column) -> Column:
    """Return timestamps that are later by ``by_ms``, in a way that is fast for each row of a stream.

    Spark adds an interval by the calendar of the session's time zone, in which a day may have 23 or 25 hours.  It also
    creates objects for each row.  This is one addition.
    """
    return f.timestamp_micros(f.unix_micros(time) + f.lit(by_ms * 1000))


def _milliseconds(interval: str) -> Column:
    """Return the whole milliseconds of an interval, as ``withWatermark`` takes it.

    A day has 24 hours, a month 31 days, and a year 12 such months (Spark: IntervalUtils.getDuration).
    """
    in_days = _MONTHS.sub(lambda part: f"{int(part[1]) * _DAYS[part[2].lower()]} days", interval)
    return f.expr(f"timestampdiff(MILLISECOND, {_EPOCH}, {_EPOCH} + interval {in_days})")


def _is_data(watermark: str = SOURCE_WATERMARK) -> Column:
    # Without a watermark, no row can hold only the watermark.
    since_ms = f.coalesce(f.pmod(f.unix_micros(f.col(watermark)), f.lit(1000)), f.lit(0))
    return since_ms != f.lit(WATERMARK_ROW_US)


def _without_watermark_rows(marked: DataFrame, watermark: str = SOURCE_WATERMARK) -> DataFrame:
    # Spark would push this filter below the watermark's node, which would then never see the rows with the watermark.
    # Spark would also push later filters, and filters that an inner join infers (its keys are not null).  Spark does
    # not move a filter that is not deterministic, and moves no other filter through it.
    return marked.where(f.when(f.spark_partition_id() >= 0, _is_data(watermark)))
