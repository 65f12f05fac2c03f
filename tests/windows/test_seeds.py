"""The scenes that users of Flink know."""

from __future__ import annotations

from datetime import timedelta

from tidegate.windows import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from tidegate.windows.testing import WindowHarness

SECOND, DAY = 1000, 24 * 60 * 60 * 1000


def starts_and_rows(harness):
    return [(pane.start_ms, [row["n"] for row in pane.rows]) for pane in harness.panes]


def test_three_second_windows_fire_exactly_when_the_watermark_reaches_their_last_millisecond():
    times = [1461756862000, 1461756866000, 1461756872000, 1461756873000, 1461756874000]
    disorder = 10 * SECOND
    harness = WindowHarness(TumblingEventTimeWindows.of(timedelta(seconds=3)))
    fired_at = []
    for n, time in enumerate(times):
        harness.element("a", {"n": n}, time)
        harness.watermark(time - disorder)
        fired_at.append(len(harness.panes))
    assert fired_at == [0, 0, 0, 0, 1]
    assert starts_and_rows(harness) == [(1461756861000, [0])]
    assert harness.panes[0].end_ms == 1461756864000
    assert harness.panes[0].watermark_ms == 1461756864000

    harness.watermark(1461756866998)
    assert len(harness.panes) == 1
    harness.watermark(1461756866999)
    assert starts_and_rows(harness)[1:] == [(1461756864000, [1])]
    harness.watermark(2**63 - 1)
    assert starts_and_rows(harness)[2:] == [(1461756870000, [2]), (1461756873000, [3, 4])]
    assert harness.event_timers() == []


def test_a_continuous_trigger_fires_inside_a_days_window_and_at_its_end():
    harness = WindowHarness(
        TumblingEventTimeWindows.of(timedelta(days=1)), ContinuousEventTimeTrigger.of(timedelta(hours=1))
    )
    harness.element("a", {"n": 0}, 30 * 60 * SECOND)
    harness.watermark(60 * 60 * SECOND - 1)
    assert harness.panes == []
    harness.watermark(60 * 60 * SECOND)
    harness.element("a", {"n": 1}, 90 * 60 * SECOND)
    harness.watermark(3 * 60 * 60 * SECOND)
    assert [row for _, row in starts_and_rows(harness)] == [[0], [0, 1], [0, 1]]
    harness.watermark(DAY - 2)
    assert len(harness.panes) == 23
    harness.watermark(DAY - 1)
    assert starts_and_rows(harness)[23:] == [(0, [0, 1])]
    assert harness.event_timers() == []


def test_a_count_trigger_fires_at_every_nth_row_and_purges_only_inside_a_purging_trigger():
    def rows_of(trigger):
        harness = WindowHarness(TumblingEventTimeWindows.of(timedelta(days=1)), trigger)
        for n in range(5):
            harness.element("a", {"n": n}, n)
        harness.watermark(DAY)
        return [rows for _, rows in starts_and_rows(harness)]

    assert rows_of(CountTrigger.of(2)) == [[0, 1], [0, 1, 2, 3]]
    assert rows_of(PurgingTrigger.of(CountTrigger.of(2))) == [[0, 1], [2, 3]]


def test_a_delta_trigger_fires_whenever_a_car_moved_more_than_a_hundred_metres():
    moved = DeltaTrigger.of(100, lambda last, row: row["at"] - last["at"])
    harness = WindowHarness(GlobalWindows.create(), PurgingTrigger.of(moved))
    for n, at in enumerate([0, 60, 100, 101, 150, 201, 202]):
        harness.element("car", {"n": n, "at": at}, n)
    assert starts_and_rows(harness) == [(None, [0, 1, 2, 3]), (None, [4, 5, 6])]
    assert harness.panes[0].end_ms is None


def test_a_row_inside_the_lateness_fires_at_once_and_one_beyond_it_is_late():
    harness = WindowHarness(TumblingEventTimeWindows.of(timedelta(seconds=3)), allowed_lateness=timedelta(seconds=2))
    harness.element("a", {"n": 0}, 1000)
    harness.watermark(2999)
    harness.element("a", {"n": 1}, 2000)
    assert starts_and_rows(harness) == [(0, [0]), (0, [0, 1])]
    harness.watermark(4998)
    harness.element("a", {"n": 2}, 0)
    assert starts_and_rows(harness)[2:] == [(0, [0, 1, 2])]
    harness.watermark(4999)
    harness.element("a", {"n": 3}, 2999)
    assert len(harness.panes) == 3
    assert harness.late == [{"n": 3}]
    assert harness.event_timers() == []
