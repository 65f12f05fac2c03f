"""The advice of a preview."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidegate.jobs.preview.advice import delay
from tidegate.sources.options import parse_duration


@given(st.integers(0, 10**10))
def test_a_delay_is_shown_no_smaller_than_it_is(least_ms):
    least = timedelta(milliseconds=least_ms)
    shown = parse_duration(delay(least))
    assert least <= shown <= least * 1.1
