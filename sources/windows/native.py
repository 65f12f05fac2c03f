"""Windows that Spark's own aggregation keeps, with the results of Flink.

Spark's watermark is set 1 ms ahead of the source's: Spark closes a window whose end is at or before its watermark,
Flink one whose last millisecond is at or before the source's.  Spark also takes rows that came behind the watermark
of the batch before, so they are filtered first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidegate.sources.bridge import PREVIOUS_WATERMARK
from tidegate.sources.windows.processor import WINDOW_END, WINDOW_START

if TYPE_CHECKING:
    from tidegate.windows import SlidingEventTimeWindows, TumblingEventTimeWindows

__all__ = ["AHEAD_MS", "aggregated"]

AHEAD_MS = 1
"""How far Spark's watermark must be ahead of the source's."""

_TIME, _WINDOW = "__time", "__window"
# Spark's own mark of a column whose times its watermark is about, which withWatermark gives.
_MARK = {"spark.watermarkDelayMs": 0}


def aggregated(
    rows: DataFrame,
    keys: Sequence[str],
    event_time: str,
    assigner: TumblingEventTimeWindows | SlidingEventTimeWindows,
    expressions: Mapping[str, str],
) -> DataFrame:
    """Return the aggregates of each key and window, once the watermark has reached its end.

    rows: with the column ``previous_source_watermark``, and a watermark that is ``AHEAD_MS`` ahead of the source's.
    expressions: of Spark, by the name of the result.
    """
    slide = getattr(assigner, "slide", assigner.size)
    offset = assigner.offset % slide
    window = f.window(_TIME, *(f"{each} milliseconds" for each in (assigner.size, slide, offset)))
    timed = rows.withColumn(_TIME, f.col(f"`{event_time}`").alias(_TIME, metadata=_MARK)).withColumn(_WINDOW, window)
    at_the_watermark = f.col(PREVIOUS_WATERMARK) + f.expr("interval 1 millisecond")
    in_time = f.col(PREVIOUS_WATERMARK).isNull() | (f.col(f"{_WINDOW}.end") > at_the_watermark)
    grouped = timed.where(in_time).groupBy(*(f.col(f"`{key}`") for key in keys), _WINDOW)
    results = grouped.agg(*(f.expr(text).alias(name) for name, text in expressions.items()))
    return results.select(
        *(f.col(f"`{key}`") for key in keys),
        f.col(f"{_WINDOW}.start").alias(WINDOW_START),
        f.col(f"{_WINDOW}.end").alias(WINDOW_END),
        *(f.col(f"`{name}`") for name in expressions),
    )
