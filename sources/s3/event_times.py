"""The event times of a query: those of its chunks, and those of the rows in a range of times."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.origin import ColumnTimes, Origin, PartitionTimes
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.range import EventTimeRange, RowTimes, TimeColumn
from tidegate.readers.event_time.units import TimeUnit

__all__ = ["S3EventTimes"]


@dataclass(frozen=True, slots=True)
class S3EventTimes:
    """The options for event times.

    origin: the origin of the event times.
    unit: the unit of a column of numbers or texts.
    parsed: the units of values that the format itself reads into a column of timestamps or dates.
    wanted: the range of times that is read.
    policy, keeps_malformed: see ObjectTimes.
    prefix: below this prefix, the folders of a key name columns.
    columns: the given columns; None: they are inferred.
    """

    origin: Origin
    unit: TimeUnit | None
    parsed: tuple[TimeUnit, ...]
    wanted: EventTimeRange
    policy: EventTimePolicy
    keeps_malformed: bool
    prefix: str
    columns: pa.Schema | None

    @property
    def by_column(self) -> RowTimes | None:
        """The event times of rows, from a column; None: they are not in a column."""
        if not isinstance(self.origin, ColumnTimes):
            return None
        return RowTimes(self.wanted, self.origin.name, self.unit, self.policy, self.parsed)

    @property
    def of_rows(self) -> RowTimes | None:
        """The event times by which rows are selected; None: all rows of a chunk are read."""
        return self.by_column if self.wanted.is_bounded else None

    @property
    def read_column(self) -> TimeColumn | None:
        """The column by which rows are selected, as it is read."""
        return None if self.of_rows is None or self.columns is None else self.of_rows.column_of(self.columns)

    @property
    def by_partition(self) -> PartitionTimes | None:
        """The event times that folders name, as values of the column; None: they are not in a column."""
        times = self.by_column
        if times is None:
            return None
        given = None if self.columns is None else times.column_of(self.columns)
        # A column that is not read has only the type of its text.
        column = given or times.column_of(pa.schema([(times.column, pa.string())]))
        return column and PartitionTimes(column, self.prefix)

    @property
    def of_chunks(self) -> ObjectTimes:
        """The event times of chunks, for planning."""
        return ObjectTimes(
            self.origin,
            policy=self.policy,
            keeps_malformed=self.keeps_malformed,
            wanted=self.wanted,
            partition=self.by_partition,
            unit=self.unit,
        )
