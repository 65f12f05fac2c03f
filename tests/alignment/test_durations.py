from __future__ import annotations

from datetime import timedelta

from tidegate.alignment.durations import milliseconds


def test_durations_are_rounded_down_to_milliseconds() -> None:
    assert milliseconds(timedelta(microseconds=1999)) == 1
