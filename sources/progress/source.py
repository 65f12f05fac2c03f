"""The typed progress of a source after its last plan (its JSON: ``enumerators/planning/source_progress.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, overload

from tidegate.alignment.splits import SplitId

__all__ = [
    "CompletenessProgress",
    "GeneratedProgress",
    "MostBehind",
    "SourceProgress",
    "SplitDetail",
    "epoch_ms",
    "parse_utc",
    "utc_time",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class SplitDetail:
    """The state of one split.

    state: ``unread``, ``reading``, ``paused``, ``caught up``, ``idle``, ``finished`` or ``removed``.
    next_event_time: the event time of its next record, or a lower bound for it; None: none is known.
    rows_remaining: how many rows are readable and not planned yet.
    """

    state: str
    next_event_time: datetime | None
    rows_remaining: int


@dataclass(frozen=True, slots=True)
class MostBehind:
    """The split with the oldest unread record.

    event_time_lag: wall clock minus the event time of that record, at least 0.
    """

    split: SplitId
    rows_remaining: int
    event_time_lag: timedelta


@dataclass(frozen=True, slots=True)
class GeneratedProgress:
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
    by_split: Mapping[SplitId, tuple[datetime | None, str]]


@dataclass(frozen=True, slots=True)
class CompletenessProgress:
    """The progress of folders with markers.

    until: the folders up to this time are complete; None: none is known to be complete.
    held_from: the start of the folder that holds back the watermark, because it has objects and no marker; None: no
        folder does.
    """

    until: datetime | None
    held_from: datetime | None


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The decisions of a source's last plan.  Times are UTC; those out of Python's range become its limits.

    reads: what is read, such as topics or a path, for display.
    watermark: the source's watermark after the plan; None: there is none yet.
    bound: no record at or after it is in the batch, up to the disorder of ``inexact_splits``; None: nothing
        bounded the plan.
    low: the lowest event time that held back the bound; None: nothing did.
    held_by: the split, or the member of the alignment group, that sets the bound.
    group_bound: the bound that the other members of the group set for this source; None: they set none.
    splits: how many splits are in which state, by the names of ``SplitDetail.state``.
    spread: the next event times of the slowest split, the median, and the fastest; None: none is known.
    planned_rows: how many rows the batch has, as far as known before it is read.  For Kafka these are offsets,
        including holes.  For objects these are rows, which are estimates in JSON, CSV, Avro and text.
    rows_remaining: how many rows of all splits are readable and not planned yet.
    num_files_outstanding, num_bytes_outstanding: the same in objects and in bytes; 0 for a source that reads no
        objects.
    event_time_lag: wall clock minus the oldest unread event time; 0: none is unread.
    current_fetch_event_time_lag: the latency in event time at the source.  It is the wall clock when the batch was
        planned, minus the earliest event time among the first records that it reads of each split.  None: it reads none
        of known time.
    current_emit_event_time_lag: the same when Spark has committed the batch.  None as above, and in a progress that
        does not know the time of the commit, such as that of ``tidegate watch``.
    watermark_lag: the wall clock when Spark has committed the batch, minus ``watermark``.  None: there is no watermark,
        or the time of the commit is not known.
    most_behind: the split with the oldest unread record; None: no split has unread records of known event time.
    late_rows, late_rows_total: how many rows were read behind the watermark by this plan, and by this run of the query.
    late_splits: the splits that came behind the watermark, the first ten.
    paused: since when (wall clock) splits have been paused, the longest ten.
    lookups, peeks: the plan's requests to the time index.
    inexact_splits: the number of splits that were cut by probing, because their index is blind there; their cuts are
        right up to their disorder.
    overshoot: by how much the batch passes the bound, because chunks of objects are read whole; 0 if it does not.
    metrics: the connector's own metrics.  ``tidegate_kafka`` has ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest``
        and ``avgOffsetsBehindLatest``, as Spark's built-in source.  ``tidegate_s3`` has ``approximateQueueSize``, the
        waiting notifications, if there is a queue.  It counts for this run ``numFilesLeftOut``, and with cleanSource
        ``numFilesCleaned`` and ``numFilesNotCleaned``.
    bad_records_total: the records that the query has set aside, from its first batch to the one before this.  None: the
        source sets none aside.
    time_to_deletion: the time until retention deletes unread records, if it can be estimated; the soonest ten.
    unavailable_splits: the splits that cannot be reached now, the first ten.
    diverged_splits: the splits that no longer hold the records that this run has read, the first ten.
    by_split: the details of every split; empty beyond 100 splits.
    generated: the progress of watermark generators; None: the source has none.
    completeness: the progress of folders with markers; None: the watermark does not come from markers.
    """

    reads: str
    watermark: datetime | None
    bound: datetime | None
    low: datetime | None
    held_by: str | None
    group_bound: datetime | None
    splits: Mapping[str, int]
    spread: tuple[datetime, datetime, datetime] | None
    planned_rows: int
    rows_remaining: int
    num_files_outstanding: int
    num_bytes_outstanding: int
    event_time_lag: timedelta
    most_behind: MostBehind | None
    late_rows: int
    late_rows_total: int
    late_splits: tuple[SplitId, ...]
    paused: Mapping[SplitId, datetime]
    lookups: int
    peeks: int
    inexact_splits: int
    overshoot: timedelta
    metrics: Mapping[str, float]
    time_to_deletion: Mapping[SplitId, timedelta]
    unavailable_splits: tuple[SplitId, ...]
    diverged_splits: tuple[SplitId, ...]
    by_split: Mapping[SplitId, SplitDetail]
    generated: GeneratedProgress | None = None
    completeness: CompletenessProgress | None = None
    bad_records_total: int | None = None
    current_fetch_event_time_lag: timedelta | None = None
    current_emit_event_time_lag: timedelta | None = None
    watermark_lag: timedelta | None = None

    @property
    def approximate_queue_size(self) -> int | None:
        """The approximate number of waiting notifications; None: there is no queue."""
        size = self.metrics.get("approximateQueueSize")
        return None if size is None else int(size)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], committed: datetime | None = None) -> SourceProgress:
        """Read the JSON; unknown keys of a newer tidegate are left out.

        committed: when Spark committed the batch; None: unknown.
        """
        behind, fetch_lag_ms = data["mostBehind"], data.get("currentFetchEventTimeLag")
        watermark = _time(data["watermark"])
        return cls(
            reads=data.get("reads", ""),
            watermark=watermark,
            bound=_time(data["bound"]),
            low=_time(data["low"]),
            held_by=data["heldBy"],
            group_bound=_time(data["groupBound"]),
            splits=data["splits"],
            spread=_spread(data["spread"]),
            planned_rows=data.get("plannedRows", 0),
            rows_remaining=data["rowsRemaining"],
            num_files_outstanding=data.get("numFilesOutstanding", 0),
            num_bytes_outstanding=data.get("numBytesOutstanding", 0),
            event_time_lag=_duration(data["eventTimeLag"]),
            most_behind=None if behind is None else MostBehind(behind[0], behind[1], _duration(behind[2])),
            late_rows=data["lateRows"],
            late_rows_total=data["lateRowsTotal"],
            late_splits=tuple(data["lateSplits"]),
            paused={split: utc_time(since_ms) for split, since_ms in data["paused"].items()},
            lookups=data["lookups"],
            peeks=data["peeks"],
            inexact_splits=data["inexactSplits"],
            overshoot=_duration(data.get("overshoot", 0)),
            metrics=data.get("metrics", {}),
            time_to_deletion={s: _duration(left * 1000) for s, left in data["secondsToDeletion"].items()},
            unavailable_splits=tuple(data.get("unavailableSplits", ())),
            diverged_splits=tuple(data.get("divergedSplits", ())),
            by_split={
                split: SplitDetail(state, _time(next_ms), rows)
                for split, (state, next_ms, rows) in data.get("bySplit", {}).items()
            },
            generated=_generated(data.get("generated")),
            completeness=_completeness(data.get("completeness")),
            bad_records_total=data.get("badRecordsTotal"),
            current_fetch_event_time_lag=None if fetch_lag_ms is None else _duration(fetch_lag_ms),
            current_emit_event_time_lag=_lag(_time(data.get("oldestEventTime")), committed),
            watermark_lag=_lag(watermark, committed),
        )


def _generated(report: Mapping[str, Any] | None) -> GeneratedProgress | None:
    if report is None:
        return None
    by_split = {split: (_time(watermark_ms), status) for split, (watermark_ms, status) in report["bySplit"].items()}
    return GeneratedProgress(
        report["heldBy"], report["readHere"], report.get("rows", 0), report.get("lateRows", 0), by_split
    )


def _completeness(report: Mapping[str, Any] | None) -> CompletenessProgress | None:
    return None if report is None else CompletenessProgress(_time(report["until"]), _time(report["next"]))


@overload
def epoch_ms(at: datetime) -> int: ...
@overload
def epoch_ms(at: None) -> None: ...
def epoch_ms(at: datetime | None) -> int | None:
    """Return a time of a progress in ms since the epoch."""
    return None if at is None else (at - _EPOCH) // _MS


def utc_time(time_ms: int) -> datetime:
    """Return a time in ms since the epoch as a datetime; a time out of Python's range becomes its limit."""
    try:
        return _EPOCH + time_ms * _MS
    except OverflowError:
        return _FIRST if time_ms < 0 else _LAST


def parse_utc(text: str) -> datetime:
    """Read a time as Spark's progress writes it; a time out of Python's range becomes its limit."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return _FIRST if text.startswith("-") else _LAST


def _time(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else utc_time(time_ms)


def _spread(times_ms: list[int] | None) -> tuple[datetime, datetime, datetime] | None:
    if times_ms is None:
        return None
    slowest, median, fastest = map(utc_time, times_ms)
    return slowest, median, fastest


def _lag(at: datetime | None, now: datetime | None) -> timedelta | None:
    return None if at is None or now is None else max(timedelta(), now - at)


def _duration(duration_ms: int) -> timedelta:
    try:
        return duration_ms * _MS
    except OverflowError:
        return timedelta.max
