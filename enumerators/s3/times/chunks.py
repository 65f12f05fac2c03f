"""Which event-time range a chunk gets: by a column, by its path, or by when the object was modified.

Pure: what a format found in an object goes in, what planning sees comes out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.enumerators.s3.times.partitions import PartitionTimes
from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import CorruptDataError
from tidegate.readers.event_time.assigners import BadEventTime
from tidegate.readers.event_time.policy import FutureEventTime
from tidegate.readers.event_time.range import ALL_TIMES, EventTimeRange
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, TimeRange

__all__ = ["ObjectTimes"]


@dataclass(frozen=True, slots=True)
class ObjectTimes:
    """Where event times come from, and what becomes of chunks without a usable one.

    column: that holds them; None: another way.
    path: finds them in the key; None: another way.  With neither, LastModified counts.
    bad: what becomes of rows without a usable time: ``fail``, LastModified stands in
        (``record-timestamp``), or planning leaves them out (``ignore``).
    future: the same of times more than ``max_future_skew_ms`` ahead of the clock; ``hold`` is the
        planner's business.
    keeps_malformed: whether malformed rows are delivered: with ``record-timestamp`` LastModified stands in for them,
        too.  They never fail, for their own policy lets them through.
    wanted: what is to be read: chunks that are known to have no time in it are left out, others planned by what
        lies in it.
    partition: finds the column among those that folders name, which count more than those of the data; None: no
        folder names columns.
    """

    column: str | None = None
    path: PathTimes | None = None
    bad: BadEventTime = "fail"
    future: FutureEventTime = "ignore"
    max_future_skew_ms: int = 0
    keeps_malformed: bool = False
    wanted: EventTimeRange = ALL_TIMES
    partition: PartitionTimes | None = None

    def column_in(self, found: S3Object) -> str | None:
        """Return the column of an object's data that holds event times; None: none does."""
        return self.column if self._key_times(found) is None else None

    def chunk(self, found: S3Object, survey: ChunkSurvey, now_ms: int) -> Chunk | None:
        """Return a chunk of an object with the event times that planning goes by; None: none of it is wanted.

        Raises CorruptDataError, which names the object, where the policy is ``fail``.
        """
        times = self._not_bad(found, survey)
        if self.wanted.is_bounded:
            if self.column_in(found) is not None and not survey.exact:
                # Rows that nobody has looked at may be wanted; they are told apart when they are read.
                times = times and self.wanted.narrowed(times)
            else:
                times = times and self.wanted.common(times)
                if times is None:
                    return None
        if times is not None and times.max_ms > now_ms + self.max_future_skew_ms:
            times = self._not_future(found, times, now_ms + self.max_future_skew_ms)
        return Chunk(*found, survey.start, survey.end, survey.rows, *(times or (None, None)))

    def _key_times(self, found: S3Object) -> PathTimes | PartitionTimes | None:
        """Return what finds the times of an object in its key; None: they are not there."""
        return self.partition if self.partition is not None and self.partition.names(found.key) else self.path

    def _not_bad(self, found: S3Object, survey: ChunkSurvey) -> TimeRange | None:
        modified = TimeRange(found.modified_ms, found.modified_ms)
        key_times = self._key_times(found)
        if self.column is None and key_times is None:
            return modified
        if key_times is not None:
            times, without = key_times.range_of(found.key), "its path names no time"
            lacking = times is None
        else:
            times = survey.times
            # A chunk without a row, such as one in which no line begins, lacks nothing.
            lacking = survey.rows_without_time > 0 or (times is None and survey.rows > 0)
            if self.bad == "record-timestamp" and self.keeps_malformed:
                lacking = lacking or survey.malformed_rows > 0
            without = f"rows have no usable time in the column {self.column!r}"
        if not lacking or self.bad == "ignore":
            return times
        if self.bad == "fail":
            raise CorruptDataError(
                f"the object {found.key!r} has no usable event time: {without}; "
                "set badEventTime to record-timestamp or ignore to go on"
            )
        return (
            modified
            if times is None
            else TimeRange(min(times.min_ms, modified.min_ms), max(times.max_ms, modified.max_ms))
        )

    def _not_future(self, found: S3Object, times: TimeRange, horizon_ms: int) -> TimeRange | None:
        if self.future == "fail":
            raise CorruptDataError(
                f"the object {found.key!r} has event times up to {times.max_ms} ms, further in the future than "
                "maxFutureSkew allows; set futureEventTime to ignore or hold to go on"
            )
        if self.future == "hold":
            return times
        # How great the others are is not known, and the watermark must not run ahead of what is unread.
        return None if times.min_ms > horizon_ms else TimeRange(times.min_ms, times.min_ms)
