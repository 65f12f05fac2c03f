from datetime import timedelta

import pytest

from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.errors import OptionError


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=-1)), "out-of-orderness"),
        (lambda: WatermarkStrategy().with_idleness(timedelta(0)), "idle timeout"),
        (lambda: WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(0)), "max drift"),
        (lambda: WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(microseconds=999)), "max drift"),
    ],
)
def test_impossible_durations_are_named(wrong, named):
    assert callable(wrong)
    with pytest.raises(OptionError, match=named):
        wrong()


def test_a_number_is_no_duration():
    with pytest.raises(
        OptionError, match=r"^max_drift is 3600, but it must be a timedelta, such as timedelta\(hours=1"
    ):
        WatermarkStrategy().with_watermark_alignment(max_drift=3600)
