"""The range of the event times of a column, gathered batch after batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tidegate.readers.arrow.conform import plain_type, position_of
from tidegate.readers.event_time.columns import check_time_type, times_ms
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.objects.values import ChunkSurvey, TimeRange

__all__ = ["SeenTimes", "TimeTally", "look_at_ends", "path_of"]

PROBE_BYTES = 64 << 10

Fit: TypeAlias = Callable[[pa.RecordBatch, int], pa.RecordBatch]


def path_of(column: str, fields: Sequence[pa.Field]) -> list[int] | None:
    """Return the indices that a dotted path leads to, of a column and then of struct fields; None: it leads nowhere.

    A column that is called like the whole path comes first.
    """
    names = [field.name for field in fields]
    whole = position_of(column, names)
    if whole is not None:
        return [whole]
    name, _, rest = column.partition(".")
    index = position_of(name, names) if rest else None
    if index is None:
        return None
    kind = plain_type(fields[index].type)
    inner = path_of(rest, list(kind)) if kinds.is_struct(kind) else None
    return None if inner is None else [index, *inner]


class TimeTally:
    """Gathers the times of the rows that were seen."""

    def __init__(self) -> None:
        self.rows = 0
        self.rows_without_time = 0
        self.malformed_rows = 0
        self.times: TimeRange | None = None

    def add_times(self, times: pa.Int64Array) -> None:
        """Take the times of rows into account, in ms since the epoch; null for none."""
        self.rows += len(times)
        self.rows_without_time += times.null_count
        if times.null_count < len(times):
            seen = pc.min_max(times).as_py()
            before = self.times or TimeRange(seen["min"], seen["max"])
            self.times = TimeRange(min(before.min_ms, seen["min"]), max(before.max_ms, seen["max"]))

    def survey(self, start: int, end: int, rows: int | None = None) -> ChunkSurvey:
        """Return the survey of a chunk with these rows; rows: of the whole chunk, if not all were seen."""
        survey = ChunkSurvey(
            start, end, self.rows, self.times, self.rows_without_time, malformed_rows=self.malformed_rows
        )
        return survey if rows is None else replace(survey, rows=rows, exact=False)


class SeenTimes(TimeTally):
    """Gathers the times of a column in the rows that were seen.

    column: a dotted path.  unit: of numbers and texts.
    fit: converts rows, by their place, to those that are read; None: they are taken as they are.
    """

    def __init__(self, column: str, unit: TimeUnit | None, fit: Fit | None = None) -> None:
        super().__init__()
        self._column, self._unit, self._fit = column, unit, fit

    def add(self, batch: pa.RecordBatch, offset: int) -> None:
        """Take rows into account.

        offset: of the bytes in the object that they are from.

        Raises OptionError unless the column holds times by its unit.  Without the column no row has a time.
        """
        if self._fit is not None:
            rows = batch.num_rows
            batch = self._fit(batch, offset)
            self.rows += rows - batch.num_rows
            self.malformed_rows += rows - batch.num_rows
        path = path_of(self._column, list(batch.schema))
        if path is None:
            self.add_times(pa.nulls(batch.num_rows, pa.int64()))
            return
        values = batch.column(path[0])
        if path[1:]:
            values = pc.struct_field(values, path[1:])
        check_time_type(self._column, values.type, self._unit)
        self.add_times(times_ms(values, self._unit))


def look_at_ends(start: int, end: int, saw: Callable[[int, int], bool]) -> bool:
    """Look at the first and the last bytes of a range, until records begin in the bytes that were looked at.

    saw: looks at what begins in a range of bytes, and tells whether anything does.  The ranges do not overlap.

    Returns whether the whole range was looked at.
    """
    looked, head = start, min(start + PROBE_BYTES, end)
    while not saw(looked, head) and head < end:
        looked, head = head, min(head + 2 * (head - looked), end)
    looked, tail = end, max(end - PROBE_BYTES, head)
    while tail < looked and not saw(tail, looked):
        looked, tail = tail, max(tail - 2 * (looked - tail), head)
    return tail == head
