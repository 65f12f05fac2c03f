"""Whether Spark's own window aggregation gives what was asked for."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame

from tidegate.sources.windows import relations
from tidegate.windows import (
    EventTimeTrigger,
    Evictor,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowStagger,
)

__all__ = ["why_operator"]


def why_operator(  # noqa: PLR0911 - one for each reason
    rows: DataFrame,
    assigner: WindowAssigner,
    trigger: Trigger | None,
    evictor: Evictor | None,
    lateness: timedelta,
    late: str | None,
) -> str | None:
    """Return why the operator must keep these windows; None: Spark's aggregation has equal results."""
    name = type(assigner).__name__
    if not isinstance(assigner, TumblingEventTimeWindows | SlidingEventTimeWindows):
        if name.endswith("SessionWindows"):
            return "Spark drops a late row that an open session would still take"
        return f"Spark has no {name}"
    if isinstance(assigner, SlidingEventTimeWindows) and assigner.slide > assigner.size:
        return "Spark's windows leave no gaps, and the slide is longer than the size"
    if isinstance(assigner, TumblingEventTimeWindows) and assigner.stagger is not WindowStagger.ALIGNED:
        return "Spark's windows are aligned"
    if trigger is not None and type(trigger) is not EventTimeTrigger:
        return f"Spark has no {type(trigger).__name__}"
    if evictor is not None:
        return f"Spark has no {type(evictor).__name__}"
    if lateness:
        return "Spark has no allowed lateness"
    if late is not None:
        return "Spark drops late rows, and has no side output"
    if relations.has_watermark(rows):
        return "the watermark is that of the stream's own withWatermark"
    if not relations.lets_columns_through(rows):
        return "a step of the stream does not let the source's watermark through"
    return None
