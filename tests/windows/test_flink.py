"""Flink's own answers to 500 random traces, recorded by ``python -m tests.windows.flink --record``."""

from collections import Counter

from tests.windows.flink import differences, recorded
from tests.windows.traces import ASSIGNERS, TRIGGERS


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
