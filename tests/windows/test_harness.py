from datetime import timedelta

from tidegate.windows import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.windows.testing import Pane, WindowHarness

MS = timedelta(milliseconds=1)


def test_panes_of_several_keys_fire_in_order_of_time_and_tell_the_watermark():
    harness = WindowHarness(TumblingEventTimeWindows.of(10 * MS))
    harness.watermark(-5)
    for key, time in [("b", 15), ("a", 25), ("a", 5), ("b", 6)]:
        harness.element(key, {"at": time}, time)
    harness.watermark(19)
    harness.watermark(2**63 - 1)
    assert harness.panes == [
        Pane("b", 0, 10, [{"at": 6}], 19),
        Pane("a", 0, 10, [{"at": 5}], 19),
        Pane("b", 10, 20, [{"at": 15}], 19),
        Pane("a", 20, 30, [{"at": 25}], 2**63 - 1),
    ]


def test_a_key_that_comes_late_sees_the_watermark_and_the_clock():
    harness = WindowHarness(TumblingEventTimeWindows.of(10 * MS))
    harness.watermark(9)
    harness.element("new", {"n": 1}, 5)
    assert (harness.panes, harness.late) == ([], [{"n": 1}])

    harness = WindowHarness(TumblingProcessingTimeWindows.of(10 * MS))
    harness.processing_time(13)
    harness.element("new", {"n": 1}, 5)
    assert harness.processing_timers() == [("new", 19, 10, 20)]
    harness.processing_time(19)
    assert [(pane.start_ms, pane.rows) for pane in harness.panes] == [(10, [{"n": 1}])]
