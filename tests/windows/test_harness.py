from __future__ import annotations

from datetime import timedelta

from tidegate.windows import (
    EventTimeSessionWindows,
    ReducingStateDescriptor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.windows.testing import Pane, WindowHarness

MS = timedelta(milliseconds=1)


class Total(Trigger):
    """Fires and purges once the amounts of a window reach ten."""

    total = ReducingStateDescriptor("total", int.__add__)

    def on_element(self, element, timestamp, window, ctx):
        total = ctx.get_partitioned_state(self.total)
        total.add(element["amount"])
        ctx.register_event_time_timer(window.max_timestamp())
        if total.get() < 10:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.total)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.total).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def amounts(harness):
    return [(pane.start_ms, pane.end_ms, [row["amount"] for row in pane.rows]) for pane in harness.panes]


def test_a_trigger_of_ones_own_keeps_state_for_each_window():
    harness = WindowHarness(TumblingEventTimeWindows.of(10 * MS), Total())
    for time, amount in [(1, 6), (12, 9), (2, 5), (3, 4)]:
        harness.element("a", {"amount": amount}, time)
    assert amounts(harness) == [(0, 10, [6, 5])]
    harness.watermark(100)
    assert amounts(harness)[1:] == [(0, 10, [4]), (10, 20, [9])]


def test_a_trigger_of_ones_own_merges_its_state_when_a_row_joins_two_sessions():
    harness = WindowHarness(EventTimeSessionWindows.with_gap(10 * MS), Total())
    for time, amount in [(0, 4), (18, 4), (9, 1)]:
        harness.element("a", {"amount": amount}, time)
    assert harness.panes == []
    assert harness.event_timers() == [("a", 27, 0, 28)]
    harness.element("a", {"amount": 1}, 5)
    assert [(start, end, sorted(rows)) for start, end, rows in amounts(harness)] == [(0, 28, [1, 1, 4, 4])]


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
