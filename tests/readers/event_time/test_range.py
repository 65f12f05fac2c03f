"""A range of event times: its common part with a chunk's range, and the rows in it."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import OptionError
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.event_time.range import ALL_TIMES, EventTimeRange, RowTimes
from tidegate.readers.objects.values import TimeRange

HOUR = 3_600_000
NOON = 1_700_049_600_000
bounds = st.none() | st.integers(-5, 5)
ranges = st.builds(EventTimeRange, bounds, bounds)


def is_in(wanted: EventTimeRange, time_ms: int) -> bool:
    return (wanted.start_ms is None or wanted.start_ms <= time_ms) and (
        wanted.end_ms is None or time_ms < wanted.end_ms
    )


@given(ranges, st.integers(-6, 6), st.integers(0, 6))
def test_a_chunk_is_planned_by_its_times_that_are_wanted(wanted, low, length):
    both = wanted.common(TimeRange(low, low + length))
    times = [time_ms for time_ms in range(low, low + length + 1) if is_in(wanted, time_ms)]
    assert both == (TimeRange(times[0], times[-1]) if times else None)
    narrowed = wanted.narrowed(TimeRange(low, low + length))
    assert narrowed == both or both is None
    assert narrowed.min_ms <= narrowed.max_ms <= low + length


@given(ranges, st.lists(st.none() | st.integers(-6, 6)), st.sampled_from(["fail", "ignore", "record-timestamp"]))
def test_rows_are_kept_whose_times_are_wanted(wanted, times, bad):
    batch = pa.record_batch({"outer": pa.array([{"at": time} for time in times], pa.struct([("at", pa.int64())]))})
    kept = RowTimes(wanted, "outer.at", "ms", EventTimePolicy(bad, earliest_ms=LEAST_MS)).kept(batch, modified_ms=3)
    stands_in = 3 if bad == "record-timestamp" else None
    counted = [stands_in if time is None else time for time in times]
    assert [row["outer"]["at"] for row in kept.to_pylist()] == [
        time for time, count in zip(times, counted, strict=True) if count is not None and is_in(wanted, count)
    ]


@pytest.mark.parametrize("column", ["a.b", "A.B", "outer.a.b"])
def test_a_column_with_a_dot_in_its_name_holds_times(column):
    batch = pa.record_batch({"a.b": [3, 4], "a": [{"b": 0}, {"b": 0}], "outer": [{"a.b": 3}, {"a.b": 4}]})
    times = RowTimes(EventTimeRange(4, None), column, "ms")
    times.check(batch.schema)
    assert times.kept(batch, 0).column("a.b").to_pylist() == [4]


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (pa.array([0, HOUR]), "ms"),
        (pa.array([0.0, 3600.0]), "s"),
        (pa.array(["1970-01-01", "1970-01-01T01:00:00Z"]), None),
        (pa.array(["1970-01-01", "1970-01-01T01:00:00Z"]), "iso8601"),
        (pa.array([datetime(1970, 1, 1, hour, tzinfo=timezone.utc) for hour in (0, 1)]), None),
        (pa.array([datetime(1970, 1, 1, hour, tzinfo=timezone.utc) for hour in (0, 1)]), "iso8601"),
        (pa.array([date(1970, 1, 1), date(1970, 1, 2)]), None),
    ],
)
def test_times_of_any_type_are_compared(values, unit):
    batch = pa.record_batch({"at": values})
    times = RowTimes(EventTimeRange(HOUR, None), "AT", unit)
    times.check(batch.schema)
    assert times.kept(batch, 0).num_rows == 1
    assert RowTimes(EventTimeRange(None, HOUR), "at", unit).kept(batch, 0).num_rows == 1


@pytest.mark.parametrize(
    ("column", "unit", "sentence"),
    [
        ("other", None, "the column 'other' has to be among the columns that are read"),
        ("at.deep", None, "the column 'at.deep' has to be among the columns that are read"),
        ("at", "ms", "eventTimeUnit is 'ms', but the column 'at' of type timestamp.* has its own unit"),
    ],
)
def test_a_column_that_is_not_read_or_holds_no_such_times_is_refused(column, unit, sentence):
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    with pytest.raises(OptionError, match=sentence):
        RowTimes(EventTimeRange(0, 1), column, unit).check(schema)


@pytest.mark.parametrize(
    ("kind", "unit", "needed"),
    [
        (pa.int32(), "ms", "int64"),
        (pa.uint32(), "us", "int64"),
        (pa.int16(), "s", "int32"),
        (pa.float32(), "s", "float64"),
    ],
)
def test_a_column_that_cannot_hold_the_times_of_now_is_refused(kind, unit, needed):
    times = RowTimes(EventTimeRange(0, None), "outer.at", unit)
    with pytest.raises(OptionError, match=rf"'outer.at' is of type {kind}, too narrow .* in {unit}; {needed} is need"):
        times.check(pa.schema([("outer", pa.struct([("at", kind)]))]))


def test_the_times_of_rows_leave_out_what_is_in_the_future_by_when_the_object_was_modified() -> None:
    rows = pa.record_batch({"at": pa.array([NOON, NOON + 400 * 24 * HOUR, None], pa.int64())})
    policy = EventTimePolicy("ignore", "ignore", 24 * HOUR)
    assert RowTimes(ALL_TIMES, "at", "ms", policy).times(rows, NOON).to_pylist() == [NOON, None, None]


def test_the_times_of_rows_need_the_column() -> None:
    rows = pa.record_batch({"id": pa.array([1])})
    with pytest.raises(OptionError, match="need the column 'at', the event time, among the columns that are read"):
        RowTimes(ALL_TIMES, "at", "ms").times(rows, 0)
