"""Counts rows without a usable event time, in Spark's own metrics: only executors see all rows."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidegate.errors import OptionError
from tidegate.readers.event_time.policy import BAD, FUTURE
from tidegate.readers.kafka.schema import EVENT_TIME, EVENT_TIME_FAULT
from tidegate.sources.tasks import SOURCE_WATERMARK


def observe_event_times(rows: DataFrame, name: str = "event_times") -> DataFrame:
    """Count the rows of a source, those with a bad or future event time, and those that planning leaves out.

    rows: the rows of a tidegate source with ``includeEventTime``, as ``load`` returns them.
    name: the name of the metric; unique in a query.

    Every progress of a stream then has ``observedMetrics[name]``.  It counts the ``rows`` of the batch, the ``bad``
    and the ``future`` ones, and as ``ignored`` those that planning and watermark leave out.  Ignored are all bad rows,
    unless the record's timestamp replaces their time, and all future rows, unless they are held.

    Raises OptionError if the columns are missing.
    """
    if not {EVENT_TIME, EVENT_TIME_FAULT} <= {*rows.columns}:
        raise OptionError(
            f"the DataFrame has no column {EVENT_TIME_FAULT!r}; set includeEventTime, and use it before others"
        )
    # Rows with only the watermark are null in all other columns.
    data = [f.col(f"`{column}`").isNotNull() for column in rows.columns if column != SOURCE_WATERMARK]
    is_data = reduce(or_, data)
    fault = f.col(EVENT_TIME_FAULT)
    counts = {
        "rows": is_data,
        BAD: fault == BAD,
        FUTURE: fault == FUTURE,
        "ignored": is_data & f.col(EVENT_TIME).isNull(),
    }
    return rows.observe(name, *(f.count_if(counted).alias(count) for count, counted in counts.items()))
