"""Counting rows without a usable event time, in Spark's own metrics: only executors see them all."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidegate.errors import OptionError
from tidegate.sources.bridge import SOURCE_WATERMARK

__all__ = ["observe_event_times"]

_EVENT_TIME = "event_time"


def observe_event_times(rows: DataFrame, name: str = "event_times") -> DataFrame:
    """Count the rows of a source, and those that planning and watermark leave out.

    rows: of a tidegate source with ``includeEventTime``, as ``load`` gives it.
    name: of the metric; each in a query needs another.

    Every progress of a stream then has ``observedMetrics[name]`` with ``rows`` and ``unusable`` of its
    batch: bad or future event times under ``ignore``.  Raises OptionError when the column is not there.
    """
    if _EVENT_TIME not in rows.columns:
        raise OptionError(
            f"the DataFrame has no column {_EVENT_TIME!r}; set includeEventTime, and use it before others"
        )
    # Rows that only tell the watermark have nothing else.
    data = [f.col(f"`{column}`").isNotNull() for column in rows.columns if column != SOURCE_WATERMARK]
    is_data = reduce(or_, data)
    unusable = f.count_if(is_data & f.col(_EVENT_TIME).isNull())
    return rows.observe(name, f.count_if(is_data).alias("rows"), unusable.alias("unusable"))
