"""Event times of columns of every type, compared with the arithmetic of integers and datetime, and ranges of them."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from math import floor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.errors import OptionError
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.event_time.columns import ALL_TIMES, EventTimeRange, RowTimes, check_time_type, times_ms
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.event_time.units import value_times
from tidegate.readers.objects.values import TimeRange

MS_PER = {"s": Fraction(1000), "ms": Fraction(1), "us": Fraction(1, 1000), "ns": Fraction(1, 10**6)}
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
ZONES = [None, "UTC", "America/New_York", "-03:00"]

numbers = st.lists(st.none() | st.integers(-(10**14), 10**14) | st.integers(-(2**63) + 1, 2**63 - 1), max_size=6)


@given(numbers, st.sampled_from([*MS_PER]), st.sampled_from(ZONES))
@example([-1, -(10**15), 10**15, 10**15 - 1], "s", None)
@example([-1, -999_999, -(10**6), -(10**6) - 1], "ns", "UTC")
def test_a_timestamp_is_rounded_down_whatever_its_unit_and_zone(given_numbers: list, unit: str, zone: str | None):
    values = pa.array([*given_numbers, None], pa.int64()).view(pa.timestamp(unit, zone))
    fits = [n is not None and (unit != "s" or abs(n) < 10**15) for n in [*given_numbers, None]]
    expected = [floor(n * MS_PER[unit]) if fit else None for n, fit in zip([*given_numbers, None], fits, strict=True)]
    assert times_ms(values, None).to_pylist() == expected
    assert times_ms(values.slice(1), None).to_pylist() == expected[1:]


@given(st.lists(st.none() | st.dates(), max_size=5))
def test_a_date_is_its_midnight(days: list[date | None]) -> None:
    expected = [day and (day - date(1970, 1, 1)) // timedelta(milliseconds=1) for day in days]
    for kind in (pa.date32(), pa.date64()):
        assert times_ms(pa.array(days, kind), None).to_pylist() == expected


@given(st.sampled_from(INTEGERS), st.sampled_from(["s", "ms", "us", "ns"]), st.data())
def test_integers_are_what_the_same_values_are_elsewhere(kind: pa.DataType, unit: Any, data: st.DataObject) -> None:
    least, most = (0, 2**kind.bit_width - 1)
    if pa.types.is_signed_integer(kind):
        least, most = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    limits = st.sampled_from([limit for power in (12, 15, 18) for limit in (10**power - 1, 10**power, -(10**power))])
    given_numbers = data.draw(
        st.lists(
            st.none() | st.integers(least, most) | limits.filter(lambda number: least <= number <= most), max_size=6
        )
    )
    times = times_ms(pa.array(given_numbers, kind), unit)
    assert times.type == pa.int64()
    assert times.to_pylist() == value_times(given_numbers, unit).to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()])
def test_texts_are_times_by_the_unit(kind: pa.DataType) -> None:
    texts = pa.array(["1970-01-01T00:00:01.5+00:00", "today", None, "1.5"], pa.string()).cast(kind)
    assert times_ms(texts, "iso8601").to_pylist() == [1_500, None, None, None]
    assert times_ms(texts, "s").to_pylist() == [None, None, None, 1_500]


def test_floats_stand_for_their_shortest_decimal() -> None:
    floats = pa.array([1_700_000_000.123, float("nan"), None, -0.0001])
    assert times_ms(floats, "s").to_pylist() == [1_700_000_000_123, None, None, -1]
    assert times_ms(pa.array([1.5], pa.float32()), "s").to_pylist() == [1_500]


def test_dictionaries_and_nulls_are_looked_through() -> None:
    moments = pa.array([datetime(1970, 1, 2), None, datetime(1970, 1, 2)], pa.timestamp("us"))  # noqa: DTZ001 - the test needs times without a zone
    assert times_ms(moments.dictionary_encode(), None).to_pylist() == [86_400_000, None, 86_400_000]
    for unit in (None, "s", "iso8601"):
        times = times_ms(pa.nulls(2), unit)
        assert (times.type, times.to_pylist()) == (pa.int64(), [None, None])


@pytest.mark.parametrize(
    ("kind", "unit", "sentence"),
    [
        (pa.int64(), None, "eventTimeUnit is not given, but the column 'at' of type BIGINT needs s, ms, us or ns"),
        (pa.uint8(), "iso8601", "eventTimeUnit is 'iso8601', but the column 'at' of type uint8 needs s, ms, us or ns"),
        (pa.float64(), None, "eventTimeUnit is not given, but the column 'at' of type DOUBLE needs s, ms, us or ns"),
        (
            pa.string(),
            None,
            "eventTimeUnit is not given, but the column 'at' of type STRING needs s, ms, us, ns or iso8601",
        ),
        (pa.timestamp("us"), "ms", "eventTimeUnit is 'ms', but the column 'at' of type TIMESTAMP_NTZ has its own unit"),
        (pa.date32(), "s", "eventTimeUnit is 's', but the column 'at' of type DATE has its own unit"),
        (pa.bool_(), "s", "the column 'at' is of type BOOLEAN, which holds no event time"),
        (pa.list_(pa.int64()), "s", "the column 'at' is of type ARRAY<BIGINT>, which holds no event time"),
        (pa.decimal128(9, 0), "s", "the column 'at' is of type DECIMAL(9,0), which holds no event time"),
        (pa.dictionary(pa.int8(), pa.string()), None, "eventTimeUnit is not given, but the column 'at' of type STRING"),
    ],
)
def test_a_type_that_does_not_fit_the_unit_is_refused_by_name(kind: pa.DataType, unit: Any, sentence: str) -> None:
    with pytest.raises(OptionError) as error:
        check_time_type("at", kind, unit)
    assert str(error.value).startswith(sentence)
    with pytest.raises(OptionError):
        times_ms(pa.nulls(1, kind), unit)


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
        ("at", "ms", "eventTimeUnit is 'ms', but the column 'at' of type TIMESTAMP.* has its own unit"),
    ],
)
def test_a_column_that_is_not_read_or_holds_no_such_times_is_refused(column, unit, sentence):
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    with pytest.raises(OptionError, match=sentence):
        RowTimes(EventTimeRange(0, 1), column, unit).check(schema)


@pytest.mark.parametrize(
    ("kind", "unit", "needed"),
    [
        (pa.int32(), "ms", "BIGINT"),
        (pa.uint32(), "us", "BIGINT"),
        (pa.int16(), "s", "INT"),
        (pa.float32(), "s", "DOUBLE"),
    ],
)
def test_a_column_that_cannot_hold_the_times_of_now_is_refused(kind, unit, needed):
    times = RowTimes(EventTimeRange(0, None), "outer.at", unit)
    with pytest.raises(
        OptionError, match=rf"'outer.at' is of type {ddl_of(kind)}, too narrow .* in {unit}; {needed} is need"
    ):
        times.check(pa.schema([("outer", pa.struct([("at", kind)]))]))


def test_the_times_of_rows_leave_out_what_is_in_the_future_by_when_the_object_was_modified() -> None:
    rows = pa.record_batch({"at": pa.array([NOON, NOON + 400 * 24 * HOUR, None], pa.int64())})
    policy = EventTimePolicy("ignore", "ignore", 24 * HOUR)
    assert RowTimes(ALL_TIMES, "at", "ms", policy).times(rows, NOON).to_pylist() == [NOON, None, None]


def test_the_times_of_rows_need_the_column() -> None:
    rows = pa.record_batch({"id": pa.array([1])})
    with pytest.raises(OptionError, match="need the column 'at', the event time, among the columns that are read"):
        RowTimes(ALL_TIMES, "at", "ms").times(rows, 0)
