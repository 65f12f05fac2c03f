"""The event times of objects: those of their chunks, for planning, and those by which rows are selected.

Pure logic.  Times come from a column, from a path, or from LastModified.  A format surveys an object, and
``EventTimePolicy`` decides which of its times planning sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.alignment.splits import Horizon
from tidegate.enumerators.s3.times.origin import LAST_MODIFIED, ColumnTimes, Origin, PartitionTimes
from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.readers.event_time.columns import ALL_TIMES, EventTimeRange, RowTimes, TimeColumn
from tidegate.readers.event_time.policy import ALSO_BEFORE_1970, NO_TIME, EventTimePolicy, JudgedTimes
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, TimeRange


@dataclass(frozen=True, slots=True)
class ObjectTimes:
    """Takes the event times of chunks and of rows from their origin.

    policy: decides about times that are bad or in the future; with ``record-timestamp`` LastModified replaces them.
    keeps_malformed: whether malformed rows are delivered; with ``record-timestamp`` LastModified is also their time.
        They never end the query, because their own policy lets them through.
    wanted: the range of times to read.  Chunks without a time in it are left out; other chunks are planned by their
        times in it.
    unit: the unit of a column of numbers or texts.
    parsed: the units of values that the format itself reads into a column of timestamps or dates.
    columns: the given columns; None: they are inferred.
    prefix: below this prefix, the folders of a key name columns, which override the data.
    """

    origin: Origin = LAST_MODIFIED
    policy: EventTimePolicy = ALSO_BEFORE_1970
    keeps_malformed: bool = False
    wanted: EventTimeRange = ALL_TIMES
    unit: TimeUnit | None = None
    parsed: tuple[TimeUnit, ...] = ("iso8601",)
    columns: pa.Schema | None = None
    prefix: str | None = ""
    by_partition: PartitionTimes | None = field(init=False)
    """The event times that folders name, as values of the column."""

    def __post_init__(self) -> None:
        times, partition = self.by_column, None
        if times is not None:
            given = None if self.columns is None else times.column_of(self.columns)
            # A column that is not read has only the type of its text.
            column = given or times.column_of(pa.schema([(times.column, pa.string())]))
            partition = column and PartitionTimes(column, self.prefix)
        object.__setattr__(self, "by_partition", partition)

    @property
    def by_column(self) -> RowTimes | None:
        """The event times of rows, from a column."""
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

    def column_in(self, obj: S3Object) -> str | None:
        """Return the column of event times in an object's data."""
        return self.origin.name if isinstance(self.origin, ColumnTimes) and self._key_times(obj) is None else None

    def chunk(self, obj: S3Object, survey: ChunkSurvey, now_ms: int) -> Chunk | None:
        """Return a chunk of an object with the event times for planning; None: no row of it is wanted.

        Raises CorruptDataError, which names the object, if the policy refuses rows of the chunk.
        """
        horizon = self.policy.horizon(now_ms)
        times = self._usable(obj, survey, horizon)
        if self.wanted.is_bounded:
            if self.column_in(obj) is not None and not survey.exact:
                # Rows that the survey did not look at may be wanted; the reader selects them.
                times = times and self.wanted.narrowed(times)
            else:
                times = times and self.wanted.common(times)
                if times is None:
                    return None
        if times is not None and not self.policy.accepts(times.max_ms, horizon):
            # The other times are unknown, and the watermark must not pass unread rows.
            times = self._counted(obj, self.policy.judge(np.array(times, np.int64), None, horizon))
        return Chunk(*obj, survey.start, survey.end, survey.rows, *(times or (None, None)))

    def _key_times(self, obj: S3Object) -> PathTimes | PartitionTimes | None:
        """Return the function that finds the times of an object in its key."""
        if self.by_partition is not None and self.by_partition.names(obj.key):
            return self.by_partition
        return self.origin if isinstance(self.origin, PathTimes) else None

    def _usable(self, obj: S3Object, survey: ChunkSurvey, horizon: Horizon) -> TimeRange | None:
        """Return the event times, also those in the future."""
        own, lacks_some, origin = self._own(obj, survey)
        accepts = self.policy.accepts
        if not lacks_some and (own is None or (accepts(own.min_ms, horizon) and accepts(own.max_ms, horizon))):
            return own
        rows = np.array([*(own or ()), *((NO_TIME,) if lacks_some else ())], np.int64)
        return self._counted(obj, self.policy.without_bad(rows, np.full_like(rows, obj.modified_ms)), origin)

    def _own(self, obj: S3Object, survey: ChunkSurvey) -> tuple[TimeRange | None, bool, str]:
        """Return the rows' own times, whether some rows have none, and the place of the times, for errors."""
        key_times = self._key_times(obj)
        if key_times is not None:
            times = key_times.range_of(obj.key)
            return times, times is None, " in its path"
        if not isinstance(self.origin, ColumnTimes):
            return TimeRange(obj.modified_ms, obj.modified_ms), False, ""
        # Malformed rows lack no time, nor does a chunk without rows, such as one in which no line begins.
        others = survey.rows > 0 and not survey.malformed_rows
        lacks_some = survey.rows_without_time > 0 or (survey.times is None and others)
        if self.policy.bad == "record-timestamp" and self.keeps_malformed:
            lacks_some = lacks_some or survey.malformed_rows > 0
        unit = "" if self.unit is None else f", where eventTimeUnit is {self.unit}"
        return survey.times, lacks_some, f" in the column {self.origin.name!r}{unit}"

    def _counted(self, obj: S3Object, judged: JudgedTimes, origin: str = "") -> TimeRange | None:
        """Return the range of the times that count.  Raises CorruptDataError for a refused time."""
        if judged.refused is not None:
            name = f"the object {obj.key!r}" if self.column_in(obj) is None else f"a row of the object {obj.key!r}"
            raise judged.refused.error(name, origin)
        counted = judged.times[judged.times != NO_TIME]
        return TimeRange(int(counted.min()), int(counted.max())) if len(counted) else None
