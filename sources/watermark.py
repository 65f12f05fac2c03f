"""Flink's watermark on Spark: the source's own, which is a minimum over its splits."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidegate.errors import OptionError
from tidegate.sources.bridge import SOURCE_WATERMARK

__all__ = ["with_source_watermark"]


def with_source_watermark(rows: DataFrame) -> DataFrame:
    """Let Spark's watermark be the source's, less one millisecond, and drop the rows that only tell it.

    rows: a stream of a tidegate source with ``includeSourceWatermark``, as ``load`` gives it; with
        ``watermarkRows`` too, the watermark also moves while no data comes.

    For transformWithState, whose event-time timers fire on it; windows of the column ``timestamp``
    need a watermark on that column instead.  Raises OptionError when the column is not there.
    """
    if SOURCE_WATERMARK not in rows.columns:
        raise OptionError(
            f"the DataFrame has no column {SOURCE_WATERMARK!r}; set includeSourceWatermark, and use it before others"
        )
    data = [f.col(f"`{name}`").isNotNull() for name in rows.columns if name != SOURCE_WATERMARK]
    # The filter names the watermark's column, or Spark would push it below the watermark's node, which
    # then would never see the rows that tell it.
    return rows.withWatermark(SOURCE_WATERMARK, "1 millisecond").where(
        reduce(or_, data, f.col(SOURCE_WATERMARK).isNull())
    )
