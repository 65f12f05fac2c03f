"""Windows of each kind, a history of rows and times, and the pure operator beside a bucket on Spark."""

from datetime import timedelta

from hypothesis import strategies as st

from tests.windows.spark.fakes import FakeSpark
from tidegate.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    SqlAggregates,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowOperator,
)
from tidegate.windows.spark.processor import OUTPUT, RESULTS
from tidegate.windows.testing import WindowHarness
from tidegate.windows.window import MAX_TIME, MIN_TIME


def ms(time):
    return timedelta(milliseconds=time)


def timed_out(nested, time, *, restarts=False, clears=True):
    return ProcessingTimeoutTrigger.of(
        nested, ms(time), reset_timer_on_new_record=restarts, should_clear_on_timeout=clears
    )


class Numbers(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [{"numbers": [row["n"] for row in elements]}]


TUMBLING, SLIDING = TumblingEventTimeWindows.of(ms(10), ms(3)), SlidingEventTimeWindows.of(ms(10), ms(4))
SESSIONS = EventTimeSessionWindows.with_gap(ms(5))
BY_CLOCK, SESSIONS_BY_CLOCK = (
    TumblingProcessingTimeWindows.of(ms(10), ms(3)),
    ProcessingTimeSessionWindows.with_gap(ms(5)),
)
COUNTED = PurgingTrigger.of(CountTrigger.of(3))
OFTEN_BY_CLOCK = ContinuousProcessingTimeTrigger.of(ms(3))
SQL = SqlAggregates(rows="sum(one)", n="sum(n)", least="min(n)", greatest="max(n)")
# Assigner, trigger, evictor, allowed lateness.
WINDOWS = {
    "tumbling": (TUMBLING, None, None, 0),
    "tumbling with lateness": (TUMBLING, None, None, 7),
    "sliding with lateness": (SLIDING, None, None, 5),
    "sliding with gaps": (SlidingEventTimeWindows.of(ms(4), ms(10)), None, None, 5),
    "sessions with lateness": (SESSIONS, None, None, 6),
    "continuous": (TUMBLING, ContinuousEventTimeTrigger.of(ms(3)), None, 4),
    "sliding continuous": (SLIDING, ContinuousEventTimeTrigger.of(ms(3)), None, 4),
    "continuous purging": (TUMBLING, PurgingTrigger.of(ContinuousEventTimeTrigger.of(ms(3))), None, 4),
    "purging": (TUMBLING, PurgingTrigger.of(EventTimeTrigger.create()), None, 20),
    "counted": (TUMBLING, PurgingTrigger.of(CountTrigger.of(3)), None, 0),
    "counted with lateness": (SLIDING, CountTrigger.of(4), None, 9),
    "sessions continuous": (SESSIONS, ContinuousEventTimeTrigger.of(ms(3)), None, 6),
    "sessions continuous purging": (SESSIONS, PurgingTrigger.of(ContinuousEventTimeTrigger.of(ms(7))), None, 4),
    "sessions counted": (SESSIONS, CountTrigger.of(2), None, 6),
    "sessions counted purging": (SESSIONS, PurgingTrigger.of(CountTrigger.of(3)), None, 3),
    "sessions purging": (SESSIONS, PurgingTrigger.of(EventTimeTrigger.create()), None, 6),
    "sliding for the end": (SLIDING, EndOfStreamTrigger.create(), None, 6),
    "purging for the end": (TUMBLING, PurgingTrigger.of(EndOfStreamTrigger.create()), None, 20),
    "never": (TUMBLING, NeverTrigger.create(), None, 5),
    "evicted": (TUMBLING, None, CountEvictor.of(2), 5),
    "by clock": (BY_CLOCK, None, None, 4),
    "by clock sliding": (SlidingProcessingTimeWindows.of(ms(10), ms(4)), None, None, 0),
    "by clock with gaps": (SlidingProcessingTimeWindows.of(ms(4), ms(10)), None, None, 0),
    "by clock counted": (BY_CLOCK, CountTrigger.of(2), None, 0),
    "by clock counted purging": (BY_CLOCK, PurgingTrigger.of(CountTrigger.of(3)), None, 0),
    "by clock continuous": (BY_CLOCK, OFTEN_BY_CLOCK, None, 0),
    "by clock continuous purging": (BY_CLOCK, PurgingTrigger.of(OFTEN_BY_CLOCK), None, 0),
    "by clock never": (BY_CLOCK, NeverTrigger.create(), None, 0),
    "sessions by clock": (SESSIONS_BY_CLOCK, None, None, 0),
    "sessions by clock purging": (SESSIONS_BY_CLOCK, PurgingTrigger.of(ProcessingTimeTrigger.create()), None, 0),
    "sessions by clock counted": (SESSIONS_BY_CLOCK, CountTrigger.of(2), None, 0),
    "sessions by clock continuous": (SESSIONS_BY_CLOCK, OFTEN_BY_CLOCK, None, 0),
    "tumbling fired by clock": (TUMBLING, PurgingTrigger.of(OFTEN_BY_CLOCK), None, 4),
    "continuous by clock": (TUMBLING, OFTEN_BY_CLOCK, None, 4),
    "sliding by clock": (SLIDING, ProcessingTimeTrigger.create(), None, 4),
    "sessions at the clock": (SESSIONS, ProcessingTimeTrigger.create(), None, 6),
    "sessions often by clock": (SESSIONS, OFTEN_BY_CLOCK, None, 6),
    "sessions often by clock purging": (SESSIONS, PurgingTrigger.of(OFTEN_BY_CLOCK), None, 6),
    "by clock in event time": (BY_CLOCK, EventTimeTrigger.create(), None, 0),
    "by clock continuous in event time": (BY_CLOCK, ContinuousEventTimeTrigger.of(ms(3)), None, 0),
    "by clock at the end": (BY_CLOCK, PurgingTrigger.of(EndOfStreamTrigger.create()), None, 0),
    "sessions by clock in event time": (SESSIONS_BY_CLOCK, EventTimeTrigger.create(), None, 0),
    "sessions by clock continuous in event time": (SESSIONS_BY_CLOCK, ContinuousEventTimeTrigger.of(ms(7)), None, 0),
    "tumbling with a time-out": (TUMBLING, timed_out(CountTrigger.of(3), 4), None, 4),
    "sliding with a time-out": (SLIDING, PurgingTrigger.of(timed_out(COUNTED, 6, restarts=True)), None, 0),
    "time-out that stays": (TUMBLING, timed_out(COUNTED, 3, clears=False), None, 9),
    "time-out that begins again": (TUMBLING, timed_out(COUNTED, 3, restarts=True, clears=False), None, 9),
    "by clock with a time-out": (BY_CLOCK, timed_out(NeverTrigger.create(), 0), None, 0),
    "by clock with a time-out that stays": (BY_CLOCK, timed_out(COUNTED, 4, restarts=True, clears=False), None, 0),
    "global with a time-out": (GlobalWindows.create(), PurgingTrigger.of(timed_out(COUNTED, 4)), None, 0),
    "time-out of event time": (TUMBLING, timed_out(EventTimeTrigger.create(), 4), None, 4),
    "global": (GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(2)), None, 0),
    "global counted": (GlobalWindows.create(), CountTrigger.of(2), None, 5),
    "global fired by clock": (GlobalWindows.create(), OFTEN_BY_CLOCK, None, 0),
    "global fired by clock purging": (GlobalWindows.create(), PurgingTrigger.of(OFTEN_BY_CLOCK), None, 0),
    "global at the end": (GlobalWindows.create(), EndOfStreamTrigger.create(), None, 5),
    "global purging at the end": (GlobalWindows.create(), PurgingTrigger.of(EndOfStreamTrigger.create()), None, 0),
    "global in event time": (GlobalWindows.create(), EventTimeTrigger.create(), None, 0),
    "global continuous": (GlobalWindows.create(), ContinuousEventTimeTrigger.of(ms(7)), None, 0),
    "global continuous purging": (
        GlobalWindows.create(),
        PurgingTrigger.of(ContinuousEventTimeTrigger.of(ms(3))),
        None,
        0,
    ),
}
rows = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 60), st.integers(0, 9)), max_size=12)
batches = st.lists(st.tuples(rows, st.integers(0, 12), st.integers(1, 12)), max_size=8)


def history(steps):
    """Return batches of rows with watermark and clock before each.

    At the end the watermark is plus infinity, and a row comes after that.
    """
    watermark, now, batches = MIN_TIME, 1, []
    for arrived, step, tick in steps:
        batches.append((arrived, watermark, now))
        watermark, now = max(watermark, 0) + step or MIN_TIME, now + tick
    return [*batches, ([], MAX_TIME, now + 20), ([("a", 5, 7)], MAX_TIME, now + 21), ([], MAX_TIME, now + 40)]


def harness_of(name):
    assigner, trigger, evictor, lateness = WINDOWS[name]
    return WindowHarness(assigner, trigger, evictor, ms(lateness))


def operator_of(name, function):
    assigner, trigger, evictor, lateness = WINDOWS[name]
    return WindowOperator(assigner, function, trigger, evictor, ms(lateness))


def spark_of(name, function, **of_spark):
    operator = operator_of(name, function)
    return FakeSpark(operator, time_mode="ProcessingTime" if operator.processing_time else "EventTime", **of_spark)


def bounds(start, end):
    return (None, None) if start is None else (start * 1000, end * 1000)


class Pair:
    """A bucket on Spark, and the pure operator, for the same windows."""

    def __init__(self, name, function, **of_spark):
        self.spark, self.harness = spark_of(name, function, late="late", **of_spark), harness_of(name)

    def batch(self, arrived, watermark, now, *, rows_first=False):
        """Hand one batch to both; compare the late rows, and return the results and the panes of the windows."""
        self.harness.panes.clear()
        self.harness.late.clear()
        if not rows_first:
            self.harness.watermark(watermark)
        self.harness.processing_time(now)
        for key, time, number in arrived:
            self.harness.element(key, {"n": number}, time)
        self.harness.watermark(watermark)
        results = self.spark.batch(arrived, watermark, now)
        late = [r["late_row"]["n"] for r in results if r[OUTPUT] == "late"]
        assert sorted(late) == sorted(row["n"] for row in self.harness.late)
        windows = [((r["key"], r["window_start"], r["window_end"]), r) for r in results if r[OUTPUT] == RESULTS]
        panes = [((p.key, *bounds(p.start_ms, p.end_ms)), [row["n"] for row in p.rows]) for p in self.harness.panes]
        return windows, panes
