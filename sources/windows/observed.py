"""What windows tell of a batch, in the metrics that Spark observes."""

from __future__ import annotations

from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidegate.sources.progress.query import LATE_DROPPED, WINDOWS

_numbers = count(1)  # Spark refuses a query in which two steps observe under one name


def observed(rows: DataFrame, dropped: Column, call: Column | None = None) -> DataFrame:
    """Return the rows; the progress of their query tells how many were dropped, and what a bucket kept after a call."""
    metrics = [f.coalesce(f.sum(dropped), f.lit(0)).alias(LATE_DROPPED)]
    if call is not None:
        metrics.append(
            f.collect_list(f.when(call.isNotNull(), f.struct(call.bucket, call.windows, call.due))).alias(WINDOWS)
        )
    return rows.observe(f"windows-{next(_numbers)}", *metrics)
