"""Durations in options."""

from datetime import timedelta

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sources.options import parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500 ms", timedelta(milliseconds=500)),
        ("10 minutes", timedelta(minutes=10)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        (" 1 second ", timedelta(seconds=1)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5 Hours", timedelta(minutes=90)),
        ("-2 days 3 s 250us", -timedelta(days=2, seconds=3, microseconds=250)),
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_durations_are_read_as_people_write_them(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "1.5",
        "-3",
        "fast",
        "10 parsecs",
        "NaT",
        "nan",
        None,
        "P",
        "1e400 s",
        "5 minutes or so",
        "1 hour, 3",
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["106752 days", "-106752 days", "9999999999 hours"])
def test_a_duration_that_is_too_long_is_refused_with_the_longest(text):
    with pytest.raises(ValueError, match=r"^a duration is at most 106751 days$"):
        parse_duration(text)


_UNITS = ["ms", "millisecond", "s", "sec", "second", "m", "min", "minute", "h", "hour", "d", "day", "us"]


@given(st.lists(st.tuples(st.integers(0, 9_999), st.sampled_from(_UNITS), st.booleans()), min_size=1, max_size=3))
def test_numbers_with_units_are_what_pandas_makes_of_them(parts):
    text = " ".join(f"{number} {unit}{'s' * (plural and len(unit) > 3)}" for number, unit, plural in parts)
    assert parse_duration(text) == pd.Timedelta(text).to_pytimedelta()
