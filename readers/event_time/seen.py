"""The range of the event times of a column, collected batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as kinds

from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.conform import conform, plain_type, position_of
from tidegate.readers.event_time.columns import check_time_type, times_ms
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.objects.values import ChunkSurvey, TimeRange


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
    """The event times of the rows that a survey has read so far, and the size of these rows in the object."""

    def __init__(self) -> None:
        self.rows = 0
        self.rows_without_time = 0
        self.malformed_rows = 0
        self.bytes = 0
        self.times: TimeRange | None = None

    def add_times(self, times: pa.Int64Array, malformed: int = 0) -> None:
        """Add rows.

        times: in ms since the epoch; null for a row without one.
        malformed: the number of further rows, which need no time.
        """
        self.rows += len(times) + malformed
        self.malformed_rows += malformed
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


@dataclass(frozen=True, slots=True)
class SeenTimes:
    """Takes the event times of a column from the rows of a survey.

    column: a dotted path.
    schema: the columns that a read gives; None: rows stay as they are.
    """

    column: str
    unit: TimeUnit | None
    schema: pa.Schema | None = None

    def add(self, tally: TimeTally, batch: pa.RecordBatch) -> None:
        """Add rows to a tally.

        Raises OptionError unless the column holds times by its unit.  Without the column, no row has a time.
        """
        if self.schema is not None:
            batch = conform(batch, self.schema)
        path = path_of(self.column, list(batch.schema))
        times = pa.nulls(batch.num_rows, pa.int64())
        if path is not None:
            values = pc.struct_field(batch.column(path[0]), path[1:]) if path[1:] else batch.column(path[0])
            check_time_type(self.column, values.type, self.unit)
            times = times_ms(values, self.unit)
        tally.add_times(times)
