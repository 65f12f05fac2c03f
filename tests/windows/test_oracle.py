"""A naive oracle beside the operator: it keeps every row, and computes the results of each step anew."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidegate.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tidegate.windows.testing import WindowHarness
from tidegate.windows.window import MAX_TIME, MIN_TIME

TIMES = st.integers(-60, 60)
STEPS = st.lists(st.one_of(st.tuples(st.just("row"), TIMES), st.tuples(st.just("watermark"), TIMES)), max_size=30).map(
    lambda steps: [*steps, ("watermark", MAX_TIME)]
)


class FixedOracle:
    """Windows with fixed bounds: every window that could hold a time is tried."""

    def __init__(self, size, slide, offset, lateness):
        self.size, self.slide, self.offset, self.lateness = size, slide, offset, lateness
        self.watermark, self.rows, self.panes, self.late = MIN_TIME, [], [], []

    def windows(self, time):
        starts = [s for s in range(time - self.size + 1, time + 1) if (s - self.offset) % self.slide == 0]
        return sorted(((start, start + self.size) for start in starts), reverse=True)

    def row(self, n, time):
        taken = [(s, e) for s, e in self.windows(time) if e - 1 + self.lateness > self.watermark]
        self.rows.append((n, taken))
        self.panes += [(s, e, self.content(s, e)) for s, e in taken if e - 1 <= self.watermark]
        if not taken and time + self.lateness <= self.watermark:
            self.late.append(n)

    def advance(self, watermark):
        held = {window for _, taken in self.rows for window in taken}
        due = [(s, e) for s, e in held if self.watermark < e - 1 <= watermark]
        self.panes += [(s, e, self.content(s, e)) for s, e in sorted(due, key=lambda pane: pane[1])]
        self.watermark = max(watermark, self.watermark)

    def content(self, start, end):
        return [n for n, taken in self.rows if (start, end) in taken]


class SessionOracle:
    """Sessions: rows are joined anew at each step, only by their times."""

    def __init__(self, gap, lateness):
        self.gap, self.lateness = gap, lateness
        self.watermark, self.rows, self.panes, self.late = MIN_TIME, [], [], []

    def sessions(self):
        merged = []
        for n, time in sorted(self.rows, key=lambda row: row[1]):
            if merged and time <= merged[-1][1]:
                merged[-1] = (merged[-1][0], time + self.gap, [*merged[-1][2], n])
            else:
                merged.append((time, time + self.gap, [n]))
        return [(start, end, sorted(rows)) for start, end, rows in merged]

    def row(self, n, time):
        self.rows.append((n, time))
        (session,) = [candidate for candidate in self.sessions() if n in candidate[2]]
        if session[1] - 1 + self.lateness <= self.watermark:
            self.rows.pop()
            self.late.append(n)
        elif session[1] - 1 <= self.watermark:
            self.panes.append(session)

    def advance(self, watermark):
        if watermark <= self.watermark:
            return
        self.panes += [session for session in self.sessions() if self.watermark < session[1] - 1 <= watermark]
        self.watermark = watermark
        gone = {n for _, end, rows in self.sessions() if end - 1 + self.lateness <= watermark for n in rows}
        self.rows = [(n, time) for n, time in self.rows if n not in gone]


def compare(harness, oracle, steps):
    for n, (kind, time) in enumerate(steps):
        if kind == "row":
            harness.element("a", {"n": n}, time)
            oracle.row(n, time)
        else:
            harness.watermark(time)
            oracle.advance(time)
    panes = [(pane.start_ms, pane.end_ms, sorted(row["n"] for row in pane.rows)) for pane in harness.panes]
    assert panes == [(start, end, sorted(rows)) for start, end, rows in oracle.panes]
    assert [row["n"] for row in harness.late] == oracle.late
    assert harness.event_timers() == []


def ms(time):
    return timedelta(milliseconds=time)


@given(size=st.integers(1, 20), shift=st.integers(-19, 19), lateness=st.integers(0, 20), steps=STEPS)
def test_tumbling_windows_hold_what_the_naive_oracle_says(size, shift, lateness, steps):
    offset = shift % size if shift >= 0 else -(-shift % size)
    assigner = TumblingEventTimeWindows.of(ms(size), ms(offset))
    compare(WindowHarness(assigner, allowed_lateness=ms(lateness)), FixedOracle(size, size, offset, lateness), steps)


@given(size=st.integers(1, 20), slide=st.integers(1, 25), lateness=st.integers(0, 20), steps=STEPS)
def test_sliding_windows_hold_what_the_naive_oracle_says(size, slide, lateness, steps):
    assigner = SlidingEventTimeWindows.of(ms(size), ms(slide))
    compare(WindowHarness(assigner, allowed_lateness=ms(lateness)), FixedOracle(size, slide, 0, lateness), steps)


@given(gap=st.integers(1, 20), lateness=st.integers(0, 20), steps=STEPS)
def test_sessions_hold_what_the_naive_oracle_says(gap, lateness, steps):
    assigner = EventTimeSessionWindows.with_gap(ms(gap))
    compare(WindowHarness(assigner, allowed_lateness=ms(lateness)), SessionOracle(gap, lateness), steps)
