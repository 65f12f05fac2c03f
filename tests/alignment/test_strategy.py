from __future__ import annotations

from datetime import timedelta

import pytest

from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.errors import OptionError


def test_the_three_ways_to_begin() -> None:
    assert WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)).out_of_orderness_ms == 5000
    assert WatermarkStrategy.for_monotonous_timestamps().out_of_orderness_ms == 0
    assert WatermarkStrategy.no_watermarks().out_of_orderness_ms is None


def test_refinements_leave_the_original_alone_and_keep_each_other() -> None:
    plain = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
    refined = plain.with_idleness(timedelta(seconds=30)).with_watermark_alignment(max_drift=timedelta(hours=1))
    assert (plain.idle_timeout, plain.max_drift_ms) == (timedelta(minutes=1), None)
    assert refined.out_of_orderness_ms == 5000
    assert refined.idle_timeout == timedelta(seconds=30)
    assert refined.max_drift_ms == 3_600_000


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=-1)), "out-of-orderness"),
        (lambda: WatermarkStrategy().with_idleness(timedelta(0)), "idle timeout"),
        (lambda: WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(0)), "max drift"),
        (lambda: WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(microseconds=999)), "max drift"),
    ],
)
def test_impossible_durations_are_named(wrong: object, named: str) -> None:
    assert callable(wrong)
    with pytest.raises(OptionError, match=named):
        wrong()


def test_a_number_is_no_duration() -> None:
    with pytest.raises(
        OptionError, match=r"^max_drift is 3600, but it must be a timedelta, such as timedelta\(hours=1"
    ):
        WatermarkStrategy().with_watermark_alignment(max_drift=3600)  # type: ignore[arg-type]
