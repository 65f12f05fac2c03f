"""The base of formats whose objects consist of groups of rows: Parquet and ORC."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tidegate.readers.event_time.seen import TimeTally
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.row_groups import ESTIMATED_ROW_BYTES, MOST_ROWS, RowGroup, surveys_of
from tidegate.readers.formats.typed_format import TypedFormat, TypedObject
from tidegate.readers.objects.values import ChunkSurvey, S3Object, TimeRange

GroupTimes: TypeAlias = tuple[TimeRange | None, int]
"""The range of event times of a group, and the number of its rows without a time."""


class GroupedObject(TypedObject):
    """An object of groups of rows.

    groups: the groups with rows, in order.
    """

    groups: Sequence[RowGroup]

    @abstractmethod
    def decoded(self, groups: Sequence[RowGroup], places: Sequence[int]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """Yield the rows of some groups, with the columns at some places, of which there is one at least."""

    def times_decoded(
        self, groups: Sequence[RowGroup], column: str, place: int
    ) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """Yield what ``decoded`` does, at least what a dotted path names of the column at a place."""
        del column
        return self.decoded(groups, [place])

    def known_times(self, column: str, unit: TimeUnit | None) -> dict[RowGroup, GroupTimes]:
        """Return the times of groups that are known without reading them.

        Raises OptionError unless the column holds times by its unit.
        """
        del column, unit
        return {}

    def rows(self, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """See TypedObject.rows."""
        mine = [group for group in self.groups if start <= group.start < end]
        if places:
            yield from (batch for _, batch in (self.decoded(mine, places) if mine else ()))
            return
        for group in mine:
            for at in range(0, group.rows, MOST_ROWS):
                yield pa.record_batch([pa.nulls(min(MOST_ROWS, group.rows - at))], [""])


@dataclass(frozen=True)
class GroupFormat(TypedFormat):
    """Objects that consist of groups of rows.

    A chunk has successive groups with at most ``chunk_bytes`` together; a larger group is a chunk of its own.

    An object of up to SMALL_BYTES is read by one request.  From a larger one, only the requested columns are fetched.
    Memory holds at most HELD_BYTES of a group and as much of the next one, and at most MOST_ROWS decoded rows.
    """

    @abstractmethod
    def opened(self, obj: S3Object, *, whole: bool = False) -> AbstractContextManager[GroupedObject]:
        """See TypedFormat.opened."""

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey.  The column of the times is read, unless the format knows them.

        Without a column, an object up to ``chunk_bytes`` is not read, and its rows are estimated.
        """
        if not obj.size:
            return []
        if column is None and obj.size <= self.chunk_bytes:
            return [ChunkSurvey(0, obj.size, max(1, obj.size // ESTIMATED_ROW_BYTES), None)]
        with self.decoding(obj), self.opened(obj) as opened:
            groups = opened.groups
            times: list[GroupTimes] = [(None, 0)] * len(groups)
            if column is not None:
                times = self._times(opened, column)
            return surveys_of(groups, times, obj.size, self.chunk_bytes)

    def _times(self, opened: GroupedObject, column: str) -> list[GroupTimes]:
        place = self.time_place(column, opened.fields)
        if place is None:
            return [(None, group.rows) for group in opened.groups]
        misfits = self.may_misfit(opened.fields[place].type)
        known = {} if misfits else opened.known_times(column, self.time_unit)
        times, tallies = self.seen_times(column), {group: TimeTally() for group in opened.groups}
        unknown = [group for group in opened.groups if group not in known]
        if unknown:
            decoded = opened.decoded(unknown, [place]) if misfits else opened.times_decoded(unknown, column, place)
            for group, batch in decoded:
                times.add(tallies[group], batch)
        return [known.get(group, (tally.times, tally.rows_without_time)) for group, tally in tallies.items()]
