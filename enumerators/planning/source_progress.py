"""The progress of a source after a plan: typed, and as the JSON that ``reportLatestOffset`` shows in Spark's progress.

The keys of the JSON are the names of the fields in camelCase, and its times and durations are in ms.  Entries that
many sources do not have are left out when they are empty.  The JSON is small for any number of splits, because Spark
keeps it twice in each progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, NamedTuple, TypeAlias, overload

from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator
from pydantic.alias_generators import to_camel

from tidegate.alignment.durations import epoch_ms, milliseconds
from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Json
from tidegate.readers.models import Model

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)


@overload
def utc_time(time_ms: int) -> datetime: ...
@overload
def utc_time(time_ms: None) -> None: ...
@overload
def utc_time(time_ms: int | None) -> datetime | None: ...
def utc_time(time_ms: int | None) -> datetime | None:
    """Return a time in ms since the epoch as a datetime; a time out of Python's range becomes its limit."""
    try:
        return None if time_ms is None else _EPOCH + time_ms * _MS
    except OverflowError:
        return _LAST if time_ms is not None and time_ms > 0 else _FIRST


def parse_utc(text: str) -> datetime:
    """Read a time as Spark's progress writes it; a time out of Python's range becomes its limit."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return _FIRST if text.startswith("-") else _LAST


def _time(value: Any) -> Any:
    if value is None:
        raise ValueError("expected a time")
    return value if isinstance(value, datetime) else utc_time(value)


def duration(length_ms: int) -> timedelta:
    """Return a length of time in ms as a timedelta; a length out of Python's range becomes its limit."""
    try:
        return length_ms * _MS
    except OverflowError:
        return timedelta.max


def _duration(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else duration(value)


_Time: TypeAlias = Annotated[datetime, PlainValidator(_time), PlainSerializer(epoch_ms)]
_Duration: TypeAlias = Annotated[timedelta, PlainValidator(_duration), PlainSerializer(milliseconds)]


class _Record(Model):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class SplitDetail(NamedTuple):
    """The state of one split.

    state: ``unread``, ``reading``, ``paused``, ``caught up``, ``idle``, ``finished`` or ``removed``.
    next_event_time: the event time of its next record, or a lower bound for it.
    rows_remaining: how many rows are readable and not planned yet.
    """

    state: str
    next_event_time: _Time | None
    rows_remaining: int


class MostBehind(NamedTuple):
    """The split with the oldest unread record.

    event_time_lag: wall clock minus the event time of that record, at least 0.
    """

    split: SplitId
    rows_remaining: int
    event_time_lag: _Duration


def _plain(values: tuple[Any, ...]) -> list[Any]:
    """Return a named tuple for JSON.  Pydantic before 2.14 does not ask the serializers of its fields."""

    def plain(value: Any) -> Any:
        if isinstance(value, timedelta):
            return milliseconds(value)
        return epoch_ms(value) if isinstance(value, datetime) else value

    return [plain(value) for value in values]


_SplitDetail: TypeAlias = Annotated[SplitDetail, PlainSerializer(_plain)]
_MostBehind: TypeAlias = Annotated[MostBehind, PlainSerializer(_plain)]


class GeneratedProgress(_Record):
    """The progress of watermark generators.

    held_by: the split that holds back the watermark; None: none does.
    read_here: how many positions the planner itself has shown the generators in this run, because no reader reported
        them.
    rows: how many rows the generators have seen in this run.
    late_rows: how many of them were behind the source's watermark before their batch.  A generator had promised that
        they would not come.
    by_split: the watermark and the status of each split that is not at its end, up to 100 splits.  The watermark is
        None before the first.  The status is ``active`` or ``idle``.
    """

    held_by: SplitId | None
    read_here: int
    rows: int
    late_rows: int
    by_split: Mapping[SplitId, tuple[_Time | None, str]]


class CompletenessProgress(_Record):
    """The progress of folders with markers.

    until: the folders up to this time are complete; None: none is known to be complete.
    held_from: the start of the folder that holds back the watermark, because it has objects and no marker; None: no
        folder does.
    """

    until: _Time | None
    held_from: _Time | None


class SourceProgress(_Record):
    """The decisions of a source's last plan.  Times are UTC; those out of Python's range become its limits.

    reads: what is read, such as topics and servers, or a path.
    planner: the name of the planner process.
    watermark: the source's watermark after the plan.
    bound: no record at or after it is in the batch, up to the disorder of ``inexact_splits``; None: nothing bounded
        the plan.
    low: the lowest event time that held back the bound.
    held_by: the split, or the member of the alignment group, that sets the bound.
    group_bound: the bound that the other members of the group set for this source.
    splits: how many splits are ``reading``, ``paused``, ``unread``, ``caught up``, ``idle``, ``finished`` or
        ``removed``.
    spread: the next event times of the slowest split, the median, and the fastest.
    planned_rows: how many rows the batch has, as far as known before it is read.  For Kafka these are offsets,
        including holes.  For objects these are rows, which are estimates in JSON, CSV, Avro and text.
    rows_remaining: how many rows of all splits are readable and not planned yet, up to the present ends or the
        configured stops.
    num_files_outstanding, num_bytes_outstanding: the same in objects and in bytes; 0 for a source that reads no
        objects.
    event_time_lag: wall clock minus the oldest unread event time; 0: none is unread.
    oldest_event_time: the earliest event time among the first records that the batch reads of each split.  None: it
        reads none of known time.
    current_fetch_event_time_lag: the wall clock when the batch was planned, minus ``oldest_event_time`` (FLIP-33).
    most_behind: the split with the oldest unread record, its unread rows, and its lag in event time.  None: no split
        has unread records of known event time.
    late_rows, late_rows_total: how many rows were read behind the watermark by this plan, and by this run of the query.
    late_splits: the splits that came, or woke, behind the watermark and have not caught up; the first ten.
    paused: since when (wall clock) splits have been paused; the longest ten.
    lookups, peeks: the plan's requests to the time index.
    inexact_splits: how many splits were cut by probing, because their index is blind there.  Such a cut is exact where
        records are in order; otherwise a batch may pass the bound by the disorder.
    overshoot: by how much the batch passes the bound, because chunks of objects are read whole.
    metrics: the connector's own metrics.
    bad_records_total: the records that the query has set aside, from its first batch to the one before this.  None: the
        source sets none aside.
    time_to_deletion: the time until retention deletes unread records, if it can be estimated; the soonest ten.
    unavailable_splits: the splits that cannot be reached now, such as partitions without a leader; the first ten.
    diverged_splits: the splits that no longer hold the records that this run has read; the first ten.
    generated: the progress of watermark generators.
    completeness: the progress of folders with markers; None: the watermark does not come from markers.
    by_split: the state, the next event time and the unread rows of each split; empty beyond 100 splits.
    skips_lost: whether records that are gone are skipped, by ``failOnDataLoss``.
    selects_rows: whether a condition leaves rows out, so that a record may have given no row.
    watermark_rows: whether each batch that moves the watermark has one more row, with only the watermark.
    row_stage: what an add-on has tasks do with their rows, in a sentence; None: nothing.
    committed: when Spark committed the batch, which no JSON holds.  None: unknown, as in ``tidegate watch``.
    """

    reads: str = ""
    planner: str = ""
    watermark: _Time | None
    bound: _Time | None
    low: _Time | None
    held_by: str | None
    group_bound: _Time | None
    splits: Mapping[str, int]
    spread: tuple[_Time, _Time, _Time] | None
    planned_rows: int
    rows_remaining: int
    num_files_outstanding: int = 0
    num_bytes_outstanding: int = 0
    event_time_lag: _Duration
    oldest_event_time: _Time | None
    current_fetch_event_time_lag: _Duration | None
    most_behind: _MostBehind | None
    late_rows: int
    late_rows_total: int
    late_splits: tuple[SplitId, ...]
    paused: Mapping[SplitId, _Time]
    lookups: int
    peeks: int
    inexact_splits: int
    overshoot: _Duration = timedelta()
    metrics: Mapping[str, int | float] = Field(default_factory=dict)
    bad_records_total: int | None = None
    time_to_deletion: Mapping[SplitId, _Duration]
    unavailable_splits: tuple[SplitId, ...] = ()
    diverged_splits: tuple[SplitId, ...] = ()
    generated: GeneratedProgress | None = None
    completeness: CompletenessProgress | None = None
    by_split: Mapping[SplitId, _SplitDetail] = Field(default_factory=dict)
    skips_lost: bool = False
    selects_rows: bool = False
    watermark_rows: bool = False
    row_stage: str | None = None
    committed: datetime | None = Field(default=None, exclude=True)

    @property
    def current_emit_event_time_lag(self) -> timedelta | None:
        """The time of the commit minus ``oldest_event_time`` (FLIP-33); None: one of them is not known."""
        return self._until_commit(self.oldest_event_time)

    @property
    def watermark_lag(self) -> timedelta | None:
        """The time of the commit minus ``watermark`` (FLIP-33); None: one of them is not known."""
        return self._until_commit(self.watermark)

    @classmethod
    def of(cls, **fields: Any) -> SourceProgress:
        """Return the progress with these fields, whose times and durations are in ms."""
        return cls.model_validate(fields)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], committed: datetime | None = None) -> SourceProgress:
        """Read the JSON; unknown keys, such as a connector's own entries, are left out."""
        return cls.model_validate({**data, "committed": committed})

    def to_json(self) -> Json:
        """Return the JSON."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def _until_commit(self, at: datetime | None) -> timedelta | None:
        return None if at is None or self.committed is None else max(timedelta(), self.committed - at)
