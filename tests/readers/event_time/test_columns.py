"""Event times of columns of every type, compared with the arithmetic of integers and datetime."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from fractions import Fraction
from math import floor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.errors import OptionError
from tidegate.readers.event_time.columns import check_time_type, times_ms
from tidegate.readers.event_time.units import value_times

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


@given(st.sampled_from(INTEGERS), st.sampled_from(["s", "ms", "us"]), st.data())
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
        (pa.int64(), None, "eventTimeUnit is not given, but the column 'at' of type int64 needs s, ms, us or ns"),
        (pa.uint8(), "iso8601", "eventTimeUnit is 'iso8601', but the column 'at' of type uint8 needs s, ms, us or ns"),
        (pa.float64(), None, "eventTimeUnit is not given, but the column 'at' of type double needs s, ms, us or ns"),
        (
            pa.string(),
            None,
            "eventTimeUnit is not given, but the column 'at' of type string needs s, ms, us, ns or iso8601",
        ),
        (pa.timestamp("us"), "ms", "eventTimeUnit is 'ms', but the column 'at' of type timestamp[us] has its own unit"),
        (pa.date32(), "s", "eventTimeUnit is 's', but the column 'at' of type date32[day] has its own unit"),
        (pa.bool_(), "s", "the column 'at' is of type bool, which holds no event time"),
        (pa.list_(pa.int64()), "s", "the column 'at' is of type list<item: int64>, which holds no event time"),
        (pa.decimal128(9, 0), "s", "the column 'at' is of type decimal128(9, 0), which holds no event time"),
        (pa.dictionary(pa.int8(), pa.string()), None, "eventTimeUnit is not given, but the column 'at' of type string"),
    ],
)
def test_a_type_that_does_not_fit_the_unit_is_refused_by_name(kind: pa.DataType, unit: Any, sentence: str) -> None:
    with pytest.raises(OptionError) as error:
        check_time_type("at", kind, unit)
    assert str(error.value).startswith(sentence)
    with pytest.raises(OptionError):
        times_ms(pa.nulls(1, kind), unit)
