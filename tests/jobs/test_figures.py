"""Numbers, times and durations as people read them."""

from datetime import datetime, timedelta, timezone

import pytest

from tests.support.progresses import HOUR
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, share, span


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (0, "0 s"),
        (59_000, "59 s"),
        (61_000, "1 min 1 s"),
        (HOUR, "1 h"),
        (24 * HOUR, "24 h"),
        (49 * HOUR, "2 d 1 h"),
        (HOUR + 90_000, "1 h 1 min"),
    ],
)
def test_durations_show_two_units(duration_ms, shown):
    assert span(duration_ms) == span(timedelta(milliseconds=duration_ms)) == shown


def test_a_share_is_all_or_nothing_only_when_it_is():
    assert [share(*of) for of in ((0, 0), (0, 9), (9, 9), (1, 10**6), (10**6 - 1, 10**6), (1, 2))] == [
        "0 %",
        "0 %",
        "100 %",
        "0.1 %",
        "99.9 %",
        "50.0 %",
    ]


def test_numbers_and_times_are_readable():
    assert count(3_300_000) == "3,300,000"
    assert clock_time(1_767_225_600_000) == "2026-01-01 00:00:00"
    assert clock_time(datetime(2026, 1, 1, tzinfo=timezone.utc)) == "2026-01-01 00:00:00"
    assert clock_time(None) == "-"


def test_times_that_python_does_not_have_become_the_limits_of_those_that_it_has():
    assert clock_time(10**15) == "9999-12-31 23:59:59"
    assert clock_time(-(10**14)) == "0001-01-01 00:00:00"


def test_one_thing_is_not_told_in_the_plural():
    assert [counted(number, "row") for number in (0, 1, 2, 1_000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
    assert [counted(number, "batch") for number in (0.6, 2)] == ["1 batch", "2 batches"]
