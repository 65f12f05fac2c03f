"""Windows that Spark's own aggregation keeps, with the results of Flink.

Spark's watermark is set 1 ms ahead of the source's.  Spark closes a window whose end is at or before its watermark.
Flink closes a window whose last millisecond is at or before the watermark.  Spark also takes rows behind the watermark
of the last batch, so a filter drops them first.

Spark's watermark begins in 1970 and ends with the year 9999.  Windows that end outside of that are grouped with the
first or the last end that Spark can close, and keep their own end in a column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from tidegate.add_ons import ADD_ON_WATERMARK, END_OF_TIME_MS, RECORDS, later
from tidegate.errors import OptionError
from tidegate.windows.description import described
from tidegate.windows.spark import relations
from tidegate.windows.spark.expressions import Argument, Parts, described_aggregates, described_stream, parts_of
from tidegate.windows.spark.first_stage import Slices
from tidegate.windows.spark.in_source import InSource, Wanted, of_keys_and_time, of_sums, slices_of
from tidegate.windows.spark.processor import TIME, WINDOW_END, WINDOW_START
from tidegate.windows.spark.results import count_records, observed

if TYPE_CHECKING:
    from tidegate.windows import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner


AHEAD_MS = 1
"""How far Spark's watermark must be ahead of the source's watermark, in ms."""

_SUMMED, _SINGLE = "summed up in the source", "single, because of a filter, an expression or an aggregate"
_OWN_END, _END, _OUTER_END = "__own_end", "__end", "__outer_end"
_FIRST_END_MS = 2
"""The first end of a window that Spark can close where Flink does: Spark's watermark is at least 0, meaning none."""


def _description(
    rows: DataFrame, keys: Sequence[str], event_time: str, assigner: WindowAssigner, expressions: Mapping[str, str]
) -> dict[str, str]:
    """Return the parts of the user's windows on which Spark's state of windows depends, by their names."""
    return {
        **described_stream(rows, keys, event_time),
        "assigner": described(assigner),
        **described_aggregates(rows, expressions),
    }


def aggregated(
    rows: DataFrame,
    keys: Sequence[str],
    event_time: str,
    assigner: TumblingEventTimeWindows | SlidingEventTimeWindows,
    expressions: Mapping[str, str],
) -> DataFrame:
    """Return the aggregates of each key and window, once the watermark has reached the window's end.

    rows: a stream that lets the source's columns through.
    expressions: Spark expressions by the name of the result.
    """
    state = _description(rows, keys, event_time, assigner, expressions)
    summed = summed_up(rows, keys, event_time, assigner, expressions)
    if summed is not None:
        parts, in_source, slices = summed
        of_source = in_source.rows(rows, AHEAD_MS, {**state, "rows": _SUMMED}, slices)
        counted = count_records(of_source, f.col(RECORDS))
        return _aggregated(counted, keys, f.col(TIME), assigner, _sums(parts, in_source), parts.results)
    used = _used_columns(rows, keys, event_time, expressions)
    marked = relations.with_watermark(rows, AHEAD_MS, used, {**state, "rows": _SINGLE})
    time = f.unix_millis(f.col(f"`{event_time}`"))  # whole milliseconds, as in Flink
    aggregates = {name: f.expr(text) for name, text in expressions.items()}
    return _aggregated(marked, keys, time, assigner, aggregates, {name: f.col(f"`{name}`") for name in expressions})


def summed_up(
    rows: DataFrame, keys: Sequence[str], event_time: str, assigner: WindowAssigner, expressions: Mapping[str, str]
) -> tuple[Parts, InSource, Slices] | None:
    """Return how tasks of the source sum up rows for these aggregates; None: they do not."""
    slices = slices_of(rows, assigner, assigner.get_default_trigger())
    try:
        parts = parts_of(rows, expressions)
    except OptionError:  # Spark keeps more aggregates
        return None
    sums = of_sums(parts)
    if slices is None or sums is None:
        return None
    of_rows = of_keys_and_time(rows, {key: key for key in keys}, event_time)
    records = {RECORDS: Wanted(Argument(None), LongType(), "sum")}  # which is also each count of all rows
    others = {name: wanted for name, wanted in sums.items() if wanted.argument.column is not None}
    in_source = InSource.of(rows, keys, {**of_rows, **records, **others})
    return None if in_source is None else (parts, in_source, slices)


def _sums(parts: Parts, in_source: InSource) -> dict[str, Column]:
    """Return the aggregates of windows by their names, of columns that are summed up; counts of all rows come first.

    ``tidegate.account`` finds them in Spark's state by their place.
    """
    others = {
        name: f.expr(f"{wanted.function}(`{name}`)") for name, wanted in in_source.sums.items() if name != RECORDS
    }
    return {**{name: f.sum(RECORDS) for name in parts.aggregates if name not in others}, **others}


def _used_columns(
    rows: DataFrame, keys: Sequence[str], event_time: str, expressions: Mapping[str, str]
) -> Collection[str]:
    """Return the columns of the sources that a stream needs for its windows, by Catalyst's ids."""
    grouped = rows.groupBy(*(f.col(f"`{name}`") for name in (*keys, event_time)))
    return relations.used_columns(grouped.agg(*(f.expr(text).alias(name) for name, text in expressions.items())))


def _aggregated(
    rows: DataFrame,
    keys: Sequence[str],
    time: Column,
    assigner: TumblingEventTimeWindows | SlidingEventTimeWindows,
    aggregates: Mapping[str, Column],
    results: Mapping[str, Column],
) -> DataFrame:
    """Return the results of each key and window.

    rows: a stream with the column ``tasks.ADD_ON_WATERMARK``, which is ``AHEAD_MS`` ahead of the source's watermark.
    time: the event time in ms.
    aggregates: of the rows of a window.  results: what follows from them.
    """
    first_end, last_end = (f.timestamp_millis(f.lit(end_ms)) for end_ms in (_FIRST_END_MS, END_OF_TIME_MS))
    own_end, watermark = f.col(_OWN_END), f.col(ADD_ON_WATERMARK)
    end = f.least(f.greatest(own_end, first_end), last_end)
    is_over = watermark.isNotNull() & (end <= watermark)
    marked = {_END: end.alias(_END, metadata=relations.EVENT_TIME), _OUTER_END: f.when(own_end != end, own_end)}
    of_rows = rows.withColumn(_OWN_END, f.timestamp_millis(_last_end(time, assigner)))
    counted = observed(of_rows, f.when(own_end.isNotNull() & is_over, 1))
    ended = _with_own_end(counted, time, assigner).where(own_end.isNotNull() & ~is_over).withColumns(marked)
    grouped = ended.groupBy(*(f.col(f"`{key}`") for key in keys), _END, _OUTER_END)
    kept = grouped.agg(*(aggregate.alias(name) for name, aggregate in aggregates.items()))
    window_end = f.coalesce(_OUTER_END, _END)
    return kept.select(
        *(f.col(f"`{key}`") for key in keys),
        later(window_end, -assigner.size).alias(WINDOW_START),
        window_end.alias(WINDOW_END, metadata=relations.EVENT_TIME),
        *(result.alias(name) for name, result in results.items()),
    )


def _with_own_end(
    rows: DataFrame, time: Column, assigner: TumblingEventTimeWindows | SlidingEventTimeWindows
) -> DataFrame:
    """Return each row once for each of its windows, with the window's end in the column ``__own_end``.

    rows: have the end of the last of their windows in that column.  A row without an event time has no end.
    """
    slide = _slide(assigner)
    if slide == assigner.size:
        return rows
    ends = f.sequence(f.unix_millis(_OWN_END), time + f.lit(1), f.lit(-slide))
    return rows.withColumn(_OWN_END, f.explode(ends)).withColumn(_OWN_END, f.timestamp_millis(_OWN_END))


def _last_end(time: Column, assigner: SlidingEventTimeWindows | TumblingEventTimeWindows) -> Column:
    slide = _slide(assigner)
    return time - f.pmod(time - f.lit(assigner.offset), f.lit(slide)) + f.lit(assigner.size)


def _slide(assigner: SlidingEventTimeWindows | TumblingEventTimeWindows) -> int:
    return int(getattr(assigner, "slide", assigner.size))
