"""Chooses between Spark's own window aggregation and the operator."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame

from tidegate.sources.windows import relations
from tidegate.windows import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    WindowAssigner,
)


def why_operator(
    assigner: WindowAssigner,
    trigger: Trigger | None,
    evictor: Evictor | None,
    lateness: timedelta,
    late: str | None,
) -> str | None:
    """Return what these windows need and Spark's aggregation lacks."""
    for part in (trigger, evictor):
        if part is not None and type(part) is not EventTimeTrigger:
            return f"Spark has no {type(part).__name__}"
    if lateness:
        return "Spark has no allowed lateness"
    if late is not None:
        return "Spark drops late rows, and has no side output"
    return _why_not_assigned(assigner)


def why_not_in_spark(rows: DataFrame) -> str | None:
    """Return why Spark's aggregation cannot use the source's watermark as Flink would."""
    if relations.holds_results_of_state(rows):
        return "the stream holds results of a stateful step, such as other windows"
    if relations.has_watermark(rows):
        return "the watermark is that of the stream's own withWatermark"
    if not relations.lets_columns_through(rows):
        return "a step of the stream does not let the source's watermark through"
    return None


def _why_not_assigned(assigner: WindowAssigner) -> str | None:
    # By their own classes: a subclass may assign rows in another way.
    if type(assigner) is TumblingEventTimeWindows:
        return None
    if type(assigner) is SlidingEventTimeWindows:
        leaves_gaps = assigner.slide > assigner.size
        return "Spark's windows leave no gaps, and the slide is longer than the size" if leaves_gaps else None
    if type(assigner) in {EventTimeSessionWindows, DynamicEventTimeSessionWindows}:
        return "Spark drops a late row that an open session would still take"
    return f"Spark has no {type(assigner).__name__}"
