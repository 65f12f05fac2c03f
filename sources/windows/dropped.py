"""Counts the rows that windows drop as late, in the metrics that Spark observes of each batch."""

from __future__ import annotations

from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidegate.sources.progress.query import LATE_DROPPED

__all__ = ["counting"]

_numbers = count(1)  # Spark refuses a query in which two steps observe under one name


def counting(rows: DataFrame, dropped: Column) -> DataFrame:
    """Return the rows; the progress of their query tells how many were dropped."""
    return rows.observe(f"windows-{next(_numbers)}", f.coalesce(f.sum(dropped), f.lit(0)).alias(LATE_DROPPED))
