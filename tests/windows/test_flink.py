"""Flink's own answers to 500 random traces, recorded by ``python -m tests.windows.flink --record``."""

from __future__ import annotations

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
        number: found for number, each in enumerate(traces) if (found := differences(each["trace"], each["answer"]))
    }
    assert wrong == {}


def test_the_recorded_traces_have_every_part_and_show_firings_late_rows_and_timers():
    traces = recorded()
    assert {each["trace"]["assigner"][0] for each in traces} == {*ASSIGNERS}
    assert {name for each in traces for name in names(each["trace"]["trigger"])} == {*TRIGGERS}
    evictors = Counter((each["trace"]["evictor"] or [None, 0, None])[::2][0] for each in traces)
    assert {*evictors} == {None, "count", "delta", "time"}
    for name, least in {"fired": 3000, "late": 300, "event": 300, "processing": 100}.items():
        assert sum(len(each["answer"][name]) for each in traces) > least
