"""Windows that Spark's own aggregation keeps, with the results of Flink.

Spark's watermark is set 1 ms ahead of the source's.  Spark closes a window whose end is at or before its watermark.
Flink closes a window whose last millisecond is at or before the watermark.  Spark also takes rows behind the watermark
of the last batch, so a filter drops them first.

Spark's watermark begins in 1970.  So windows before 1970 are grouped with the end of the first window that Spark can
close, and keep their own end in a column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidegate.sources.columns.watermark import later
from tidegate.sources.tasks import WINDOW_WATERMARK
from tidegate.sources.windows import relations
from tidegate.sources.windows.description import described_stream
from tidegate.sources.windows.expressions import described_aggregates
from tidegate.sources.windows.processor import WINDOW_END, WINDOW_START
from tidegate.windows.description import described

if TYPE_CHECKING:
    from tidegate.windows import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner

__all__ = ["AHEAD_MS", "aggregated", "description", "used_columns"]

AHEAD_MS = 1
"""How far Spark's watermark must be ahead of the source's watermark, in ms."""

_OWN_END, _END, _EARLY_END = "__own_end", "__end", "__early_end"
_FIRST_END_MS = 2
"""The first end of a window that Spark can close where Flink does: Spark's watermark is at least 0, meaning none."""


def description(
    rows: DataFrame, keys: Sequence[str], event_time: str, assigner: WindowAssigner, expressions: Mapping[str, str]
) -> dict[str, str]:
    """Return the parts of the user's wish on which Spark's state of windows depends, by their names."""
    return {
        **described_stream(rows, keys, event_time),
        "assigner": described(assigner),
        **described_aggregates(rows, expressions),
    }


def used_columns(
    rows: DataFrame, keys: Sequence[str], event_time: str, expressions: Mapping[str, str]
) -> Collection[str]:
    """Return the columns of the sources that a stream needs for its windows, by Catalyst's ids."""
    grouped = rows.groupBy(*(f.col(f"`{name}`") for name in (*keys, event_time)))
    return relations.used_columns(grouped.agg(*(f.expr(text).alias(name) for name, text in expressions.items())))


def aggregated(
    rows: DataFrame,
    keys: Sequence[str],
    event_time: str,
    assigner: TumblingEventTimeWindows | SlidingEventTimeWindows,
    expressions: Mapping[str, str],
) -> DataFrame:
    """Return the aggregates of each key and window, once the watermark has reached the window's end.

    rows: a stream with the column ``tasks.WINDOW_WATERMARK``, which is ``AHEAD_MS`` ahead of the source's watermark.
    expressions: Spark expressions by the name of the result.
    """
    first_end = f.timestamp_millis(f.lit(_FIRST_END_MS))
    own_end, watermark = f.col(_OWN_END), f.col(WINDOW_WATERMARK)
    end = f.greatest(own_end, first_end)
    in_time = own_end.isNotNull() & (watermark.isNull() | (end > watermark))
    marked = {_END: end.alias(_END, metadata=relations.EVENT_TIME), _EARLY_END: f.when(own_end < first_end, own_end)}
    ended = _with_own_end(rows, event_time, assigner).where(in_time).withColumns(marked)
    grouped = ended.groupBy(*(f.col(f"`{key}`") for key in keys), _END, _EARLY_END)
    results = grouped.agg(*(f.expr(text).alias(name) for name, text in expressions.items()))
    window_end = f.coalesce(_EARLY_END, _END)
    return results.select(
        *(f.col(f"`{key}`") for key in keys),
        later(window_end, -assigner.size).alias(WINDOW_START),
        window_end.alias(WINDOW_END, metadata=relations.EVENT_TIME),
        *(f.col(f"`{name}`") for name in expressions),
    )


def _with_own_end(
    rows: DataFrame, event_time: str, assigner: TumblingEventTimeWindows | SlidingEventTimeWindows
) -> DataFrame:
    """Return each row once for each of its windows, with the window's end in the column ``__own_end``.

    Times are whole milliseconds, as in Flink.  A row without an event time has no end.
    """
    time, size = f.unix_millis(f.col(f"`{event_time}`")), assigner.size
    slide = getattr(assigner, "slide", size)
    last_end = time - f.pmod(time - f.lit(assigner.offset), f.lit(slide)) + f.lit(size)
    if slide == size:
        return rows.withColumn(_OWN_END, f.timestamp_millis(last_end))
    ends = rows.withColumn(_OWN_END, f.explode(f.sequence(last_end, time + f.lit(1), f.lit(-slide))))
    return ends.withColumn(_OWN_END, f.timestamp_millis(_OWN_END))
