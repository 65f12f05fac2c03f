import math
import warnings
from datetime import timedelta

import pytest

from tidegate.errors import OptionError
from tidegate.windows import (
    Aggregate,
    AggregateFunction,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SqlAggregate,
    SqlAggregates,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowOperator,
)

NONE, ONE, TWO = (timedelta(seconds=seconds) for seconds in range(3))
COUNT = Aggregate(SqlAggregates(rows="count(*)"))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: TumblingEventTimeWindows.of(NONE), "size=0:00:00 of TumblingEventTimeWindows must be positive."),
        (lambda: TumblingEventTimeWindows.of(ONE, -ONE), "offset=.* must be smaller than size=0:00:01."),
        (
            lambda: TumblingEventTimeWindows.of(ONE / 3000),
            "size=0:00:00.000333 must be a whole number of milliseconds.",
        ),
        (
            lambda: TumblingEventTimeWindows.of(5),
            r"size is 5, but must be a .*timedelta, such as timedelta\(minutes=5\)",
        ),
        (lambda: SlidingEventTimeWindows.of(TWO, ONE, ONE), "offset=0:00:01 of .* must be smaller than slide=0:00:01."),
        (lambda: SlidingEventTimeWindows.of(timedelta(days=365), ONE / 1000), "slide=.* more than 10000000 windows."),
        (
            lambda: EventTimeSessionWindows.with_gap(-ONE),
            "gap=-1 day, 23:59:59 of EventTimeSession.* must be positive.",
        ),
        (
            lambda: DynamicProcessingTimeSessionWindows.with_dynamic_gap(ONE),
            "gap of .* must be a function that takes a row and returns a timedelta, not",
        ),
        (
            lambda: DynamicProcessingTimeSessionWindows.with_dynamic_gap(lambda one, other: ONE),
            "gap of .* must be a function that takes a row .*lambda.*one, other. cannot be called with one argument.",
        ),
        (lambda: DeltaTrigger.of(1, abs), "delta_function of DeltaTrigger must be a function of two rows, and abs"),
        (lambda: DeltaTrigger.of(1, "far"), "delta_function of DeltaTrigger must be a function of two rows, not 'far'"),
        (lambda: DeltaTrigger.of("1", max), "threshold='1' of DeltaTrigger must be a number, or a timedelta."),
        (lambda: DeltaEvictor.of(math.nan, max), "threshold=nan of DeltaEvictor must be a number, or a timedelta."),
        (lambda: PurgingTrigger.of(3), "PurgingTrigger takes a trigger, such as CountTrigger.of.3., not 3"),
        (lambda: ProcessingTimeoutTrigger.of(None, ONE), "ProcessingTimeoutTrigger takes a trigger, .* not None"),
        (lambda: CountTrigger.of(1.5), "max_count=1.5 of CountTrigger must be a whole number."),
        (lambda: CountTrigger.of(0), "max_count=0 of CountTrigger must be at least 1."),
        (lambda: ProcessingTimeoutTrigger.of(CountTrigger.of(1), -ONE), "timeout=.* must not be negative."),
        (lambda: CountEvictor.of(-1), "max_count=-1 of CountEvictor must not be negative."),
        (lambda: TimeEvictor.of(-ONE), "window_size=.* of TimeEvictor must not be negative."),
        (lambda: SqlAggregate.parse("summ(x)"), r"'summ\(x\)' must be count\(\*\), .*; did you mean 'sum'\?"),
        (lambda: SqlAggregates(x="sum(*)"), r"'sum\(\*\)' must be count\(\*\)"),
        (lambda: SqlAggregates(x="amount"), "'amount' must be count"),
        (
            lambda: WindowOperator(TumblingEventTimeWindows.of(ONE), COUNT, allowed_lateness=-ONE),
            "allowed_lateness=-1 day, 23:59:59 must not be negative.",
        ),
        (
            lambda: WindowOperator(
                EventTimeSessionWindows.with_gap(ONE),
                COUNT,
                PurgingTrigger.of(DeltaTrigger.of(1, lambda one, other: 0)),
            ),
            "PurgingTrigger cannot be used with EventTimeSessionWindows, whose windows merge",
        ),
    ],
)
def test_bad_input_is_one_sentence_when_it_is_given(build, sentence):
    with pytest.raises(OptionError, match=sentence) as raised:
        build()
    assert str(raised.value).count("\n") == 0


def test_an_aggregate_function_without_merge_is_refused_for_sessions_unless_an_evictor_keeps_the_rows():
    class First(AggregateFunction):
        def create_accumulator(self):
            return None

        def add(self, value, accumulator):
            return accumulator or value

        def get_result(self, accumulator):
            return accumulator

    sessions = EventTimeSessionWindows.with_gap(ONE)
    with pytest.raises(OptionError, match="needs merge, because windows of EventTimeSessionWindows merge"):
        WindowOperator(sessions, Aggregate(First()))
    assert WindowOperator(sessions, Aggregate(First()), evictor=CountEvictor.of(2)).folding is None


@pytest.mark.parametrize("trigger", [None, CountTrigger.of(3), ProcessingTimeoutTrigger.of(NeverTrigger.create(), ONE)])
def test_a_global_window_whose_rows_never_go_is_a_warning(trigger):
    with pytest.warns(UserWarning, match=r"GlobalWindows with \w+ keeps state for ever"):
        WindowOperator(GlobalWindows.create(), COUNT, trigger)


@pytest.mark.parametrize(
    "parts",
    [
        (GlobalWindows.create(), COUNT, PurgingTrigger.of(CountTrigger.of(3))),
        (GlobalWindows.create(), COUNT, CountTrigger.of(3), CountEvictor.of(3)),
        (GlobalWindows.create_with_end_of_stream_trigger(), COUNT),
        (TumblingEventTimeWindows.of(ONE), COUNT, CountTrigger.of(3)),
    ],
)
def test_windows_whose_rows_go_are_no_warning(parts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WindowOperator(*parts)


@pytest.mark.parametrize(
    ("parts", "event_time", "processing_time"),
    [
        ((TumblingEventTimeWindows.of(ONE), COUNT), True, False),
        ((TumblingProcessingTimeWindows.of(ONE), COUNT), False, True),
        ((TumblingProcessingTimeWindows.of(ONE), COUNT, ContinuousEventTimeTrigger.of(ONE)), True, True),
        ((TumblingEventTimeWindows.of(ONE), COUNT, ProcessingTimeoutTrigger.of(CountTrigger.of(1), ONE)), True, True),
        ((GlobalWindows.create(), COUNT, PurgingTrigger.of(CountTrigger.of(3))), False, False),
        ((GlobalWindows.create_with_end_of_stream_trigger(), COUNT), True, False),
    ],
)
def test_an_operator_tells_the_kinds_of_time_whose_timers_it_uses(parts, event_time, processing_time):
    operator = WindowOperator(*parts)
    assert (bool(operator.event_time), bool(operator.processing_time)) == (event_time, processing_time)
