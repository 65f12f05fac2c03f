"""The range of the event times of a column, collected batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.conform import plain_type, position_of
from tidegate.readers.event_time.columns import check_time_type, times_ms
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.objects.values import ChunkSurvey, TimeRange

PROBE_BYTES = 64 << 10

Fit: TypeAlias = Callable[[pa.RecordBatch, int], pa.RecordBatch]


def path_of(column: str, fields: Sequence[pa.Field]) -> list[int] | None:
    """Return the indices that a dotted path names; a column whose name is the whole path comes first."""
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
    """The event times of the rows that a survey has read so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.rows_without_time = 0
        self.malformed_rows = 0
        self.times: TimeRange | None = None

    def add_times(self, times: pa.Int64Array) -> None:
        """Add the times of rows, in ms since the epoch; null for a row without one."""
        self.rows += len(times)
        self.rows_without_time += times.null_count
        if times.null_count < len(times):
            seen = pc.min_max(times).as_py()
            before = self.times or TimeRange(seen["min"], seen["max"])
            self.times = TimeRange(min(before.min_ms, seen["min"]), max(before.max_ms, seen["max"]))

    def survey(self, start: int, end: int, rows: int | None = None) -> ChunkSurvey:
        """Return the survey of a chunk, which has an estimated number of rows unless all were read."""
        survey = ChunkSurvey(
            start, end, self.rows, self.times, self.rows_without_time, malformed_rows=self.malformed_rows
        )
        return survey if rows is None else replace(survey, rows=rows, exact=False)


class SeenTimes(TimeTally):
    """The event times of a column in the rows that a survey has read so far.

    column: a dotted path.
    fit: converts a batch at an offset to the rows that a read gives; None: rows stay as they are.
    """

    def __init__(self, column: str, unit: TimeUnit | None, fit: Fit | None = None) -> None:
        super().__init__()
        self._column, self._unit, self._fit = column, unit, fit

    def add(self, batch: pa.RecordBatch, offset: int) -> None:
        """Add rows.

        offset: the offset in the object of the bytes that hold the rows.

        Raises OptionError unless the column holds times by its unit.  Without the column, no row has a time.
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
    """Read the first and the last bytes of a range, and more of them until records begin there.

    saw: reads the records that begin in a range of bytes, and returns whether there are any.  The ranges of its calls
        do not overlap.

    Returns whether the whole range was read.
    """
    looked, head = start, min(start + PROBE_BYTES, end)
    while not saw(looked, head) and head < end:
        looked, head = head, min(head + 2 * (head - looked), end)
    looked, tail = end, max(end - PROBE_BYTES, head)
    while tail < looked and not saw(tail, looked):
        looked, tail = tail, max(tail - 2 * (looked - tail), head)
    return tail == head
