"""Windows against Flink's answers and plain oracles, and windows that merge."""

from collections import Counter, OrderedDict
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from functools import reduce
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.windows.flink import differences, recorded
from tests.windows.traces import ASSIGNERS, TRIGGERS
from tidegate.errors import ContractError
from tidegate.windows import EventTimeSessionWindows, MergingWindowAssigner, TimeWindow
from tidegate.windows.key_windows import merges
from tidegate.windows.state.key_state import of_bytes, to_bytes
from tidegate.windows.testing import WindowHarness

BERLIN = ZoneInfo("Europe/Berlin")
UTC_OR_NONE = st.sampled_from([None, timezone.utc])
ZONES = st.sampled_from([None, timezone.utc, timezone(timedelta(hours=1)), timezone(timedelta(0), "zero"), BERLIN])


class Pair(NamedTuple):
    one: Any
    other: Any


class Text(str):
    __slots__ = ()


class Number(IntEnum):
    ONE = 1


class Moment(datetime):
    pass


class Instant(time):
    pass


def same(value):
    """Return what differs wherever two values do: with types, time zones and folds, and nan as itself."""
    kind = type(value)
    if isinstance(value, (list, tuple)):
        return kind, [same(item) for item in value]
    if isinstance(value, dict):
        return kind, [(same(key), same(held)) for key, held in value.items()]
    if isinstance(value, (datetime, time)):
        return kind, value.replace(tzinfo=None).isoformat(), repr(value.tzinfo), value.fold
    return kind, value if kind is int else repr(value)


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.decimals(),
    st.text(st.characters(codec=None)),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=UTC_OR_NONE).map(lambda moment: moment.replace(fold=0)),
    st.times(timezones=UTC_OR_NONE).map(lambda moment: moment.replace(fold=0)),
)
others = st.one_of(
    st.integers().filter(lambda number: abs(number) > 2**63),
    st.builds(datetime.replace, st.datetimes(timezones=ZONES), fold=st.integers(0, 1)),
    st.builds(time.replace, st.times(timezones=ZONES), fold=st.integers(0, 1)),
    st.text().map(Text),
    st.frozensets(st.integers(), max_size=1),
    st.complex_numbers(allow_nan=False),
    st.timedeltas(),
)


def nested(leaves):
    keys = leaves.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan()))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(st.one_of(keys, st.tuples(keys, keys)), inner, max_size=4),
        ),
        max_leaves=12,
    )


NOON = datetime(2026, 10, 25, 2, 30, tzinfo=timezone.utc)
ZONED = [NOON.replace(fold=1), *(NOON.replace(tzinfo=zone) for zone in (BERLIN, timezone(timedelta(0), "zero")))]


@given(nested(st.one_of(plain, others)))
@example([*ZONED, *(moment.timetz() for moment in ZONED)])
@example([2**63, -(2**63) - 1, 10**5_000])  # Python writes no number that is so long
@example([Moment(2026, 1, 1), Instant(1), Text("a"), Number.ONE, Pair(1, 2), OrderedDict(a=1)])
@example("\ud83d\ude00")  # two surrogates are not the one character of both
@example([[[[[[[[(1,)]]]]]]]])
@example({1: "int", "1": "text", (True, 1.0): False, None: -0.0})
def test_values_come_back_with_their_types_time_zones_and_folds(value):
    assert same(of_bytes(to_bytes(value))) == same(value)


@given(plain)
def test_plain_values_are_not_pickled(value):
    for held in (value, [value], (value,), {"key": value}, {(1, "a"): value}):
        assert b'{"pickle":' not in to_bytes(held)


def names(parts):
    """Return the names in a trigger and the triggers inside it."""
    return (
        [] if parts is None else [parts[0], *(name for part in parts if isinstance(part, list) for name in names(part))]
    )


def test_the_operator_gives_what_flink_gives_for_every_recorded_trace_and_every_way_of_running_it():
    traces = recorded()
    assert len(traces) == 500
    wrong = {
        number: differing
        for number, recorded_trace in enumerate(traces)
        if (differing := differences(recorded_trace["trace"], recorded_trace["answer"]))
    }
    assert wrong == {}


def test_the_recorded_traces_have_every_part_and_show_firings_late_rows_and_timers():
    traces = recorded()
    assert {recorded_trace["trace"]["assigner"][0] for recorded_trace in traces} == {*ASSIGNERS}
    assert {name for recorded_trace in traces for name in names(recorded_trace["trace"]["trigger"])} == {*TRIGGERS}
    evictors = Counter((recorded_trace["trace"]["evictor"] or [None, 0, None])[::2][0] for recorded_trace in traces)
    assert {*evictors} == {None, "count", "delta", "time"}
    for name, least in {"fired": 3000, "late": 300, "event": 300, "processing": 100}.items():
        assert sum(len(recorded_trace["answer"][name]) for recorded_trace in traces) > least


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
    ("groups", "result", "reported"),
    [
        ([[0, 1], [1, 2]], TimeWindow(0, 60), "may be merged once"),
        ([[0, 1]], TimeWindow(50, 60), "the result must be new or one of them"),
        ([[]], None, "merges nothing into"),
    ],
)
def test_a_merge_that_would_lose_rows_is_told(groups, result, reported):
    with pytest.raises(ContractError, match=reported):
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
