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
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_durations_are_read_as_people_write_them(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "10", "1.5", "-3", "fast", "10 parsecs", "NaT", "nan", None, "P", "1e400 s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["106752 days", "-106752 days", "9999999999 hours"])
def test_a_duration_that_is_too_long_is_refused_with_the_longest(text):
    with pytest.raises(ValueError, match=r"^a duration is at most 106751 days$"):
        parse_duration(text)


@given(st.integers(0, 99_999), st.sampled_from(["millisecond", "second", "minute", "hour", "day"]), st.booleans())
def test_a_number_of_one_unit_is_what_pandas_makes_of_it(number, unit, plural):
    text = f"{number} {unit}{'s' * plural}"
    assert parse_duration(text) == pd.Timedelta(text).to_pytimedelta()
