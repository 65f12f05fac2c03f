"""Assigners that merge windows in their own way, as a MergingWindowAssigner of Flink does."""

from datetime import timedelta
from functools import reduce

import pytest

from tidegate.errors import ContractError
from tidegate.windows import EventTimeSessionWindows, MergingWindowAssigner, TimeWindow
from tidegate.windows.key_windows import merges
from tidegate.windows.testing import WindowHarness

MS = timedelta(milliseconds=1)


class LongestSessions(EventTimeSessionWindows):
    """Sessions with a longest length: a row that would make one longer begins the next."""

    longest = 30

    def merge_windows(self, windows, callback):
        groups = [[windows[0]]]
        for window in windows[1:]:
            session = reduce(TimeWindow.cover, groups[-1])
            longer = session.cover(window)
            if session.intersects(window) and longer.end - longer.start <= self.longest:
                groups[-1].append(window)
            else:
                groups.append([window])
        for group in groups:
            callback.merge(group, reduce(TimeWindow.cover, group))


def panes(harness):
    return [(pane.start_ms, pane.end_ms, [row["at"] for row in pane.rows]) for pane in harness.panes]


def test_sessions_with_a_longest_length_end_though_rows_go_on():
    harness = WindowHarness(LongestSessions.with_gap(10 * MS))
    for at in range(0, 60, 5):
        harness.element("a", {"at": at}, at)
    harness.watermark(200)
    assert panes(harness) == [(0, 30, [0, 5, 10, 15, 20]), (25, 55, [25, 30, 35, 40, 45]), (50, 65, [50, 55])]
    assert harness.event_timers() == []


def test_rows_of_one_batch_are_merged_in_the_way_of_a_subclass():
    """The sessions that it inherits merge a batch at once."""
    assert LongestSessions.assign_batch is MergingWindowAssigner.assign_batch
    assert EventTimeSessionWindows.assign_batch is not MergingWindowAssigner.assign_batch


class Absorbing(EventTimeSessionWindows):
    """Merges the windows of earlier rows when a row far away arrives: the new window is no part."""

    def merge_windows(self, windows, callback):
        if len(windows) == 3:
            callback.merge(windows[:2], windows[0])


def test_windows_that_merge_into_one_of_them_without_the_new_one_fire_and_leave_nothing():
    harness = WindowHarness(Absorbing.with_gap(10 * MS), allowed_lateness=5 * MS)
    for at in (0, 20, 50):
        harness.element("a", {"at": at}, at)
    harness.watermark(200)
    assert panes(harness) == [(0, 10, [0, 20]), (50, 60, [50])]
    assert harness.event_timers() == []


class Wrong(EventTimeSessionWindows):
    def __init__(self, gap, groups, result):
        super().__init__(gap)
        self.groups, self.result = groups, result

    def merge_windows(self, windows, callback):
        for group in self.groups:
            callback.merge([windows[place] for place in group], self.result or windows[0])


@pytest.mark.parametrize(
    ("groups", "result", "told"),
    [
        ([[0, 1], [1, 2]], TimeWindow(0, 60), "may be merged once"),
        ([[0, 1]], TimeWindow(50, 60), "the result must be new or one of them"),
        ([[]], None, "merges nothing into"),
    ],
)
def test_a_merge_that_would_lose_rows_is_told(groups, result, told):
    with pytest.raises(ContractError, match=told):
        merges(Wrong(10, groups, result), [TimeWindow(0, 10), TimeWindow(20, 30)], TimeWindow(50, 60))


class Shrinking(EventTimeSessionWindows):
    def merge_windows(self, windows, callback):
        if len(windows) > 1:
            callback.merge(windows, TimeWindow(0, 5))


def test_a_merge_into_a_window_that_is_over_is_told():
    harness = WindowHarness(Shrinking.with_gap(10 * MS))
    harness.watermark(7)
    harness.element("a", {}, 0)
    with pytest.raises(ContractError, match=r"Shrinking merges windows into .*, which the watermark has passed"):
        harness.element("a", {}, 2)


def test_open_windows_are_joined_in_order_of_time_whatever_their_order_is():
    assigner = EventTimeSessionWindows.with_gap(10 * MS)
    opened = [TimeWindow(40, 50), TimeWindow(20, 30), TimeWindow(0, 10)]
    (merge,) = merges(assigner, opened, TimeWindow(10, 20))
    assert merge == (TimeWindow(0, 30), [TimeWindow(0, 10), TimeWindow(20, 30)], True)
