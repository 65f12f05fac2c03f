"""The progress of a source, typed and as JSON."""

from datetime import datetime, timedelta, timezone

import pytest

from tests.support.progresses import MINUTE, NOON, report
from tidegate import SourceProgress
from tidegate.enumerators.planning.source_progress import MostBehind, SplitDetail

START = datetime(2023, 11, 15, 12, tzinfo=timezone.utc)


def typed(**fields):
    return SourceProgress.from_json(report(**fields))


def test_times_are_utc_and_durations_have_no_unit_to_know():
    said = typed(
        paused={"orders-2": NOON}, timeToDeletion={"orders-2": 5 * MINUTE}, metrics={"approximateQueueSize": 7}
    )
    assert (said.low, said.bound, said.watermark) == (
        START,
        START + timedelta(hours=1),
        START - timedelta(minutes=1),
    )
    assert said.event_time_lag == timedelta(hours=5)
    assert said.most_behind == MostBehind("orders-0", 900, timedelta(hours=5))
    assert said.paused == {"orders-2": START}
    assert said.time_to_deletion == {"orders-2": timedelta(minutes=5)}
    assert said.by_split == {"orders-0": SplitDetail("reading", START + timedelta(hours=1), 900)}
    assert said.metrics == {"approximateQueueSize": 7}


@pytest.mark.parametrize(("time_ms", "year"), [(2**63 - 1, 9999), (-(2**63), 1)])
def test_a_time_that_python_cannot_hold_becomes_its_limit(time_ms, year):
    assert typed(bound=time_ms).bound.year == year
    assert typed(eventTimeLag=2**63 - 1).event_time_lag == timedelta.max


def test_what_is_written_is_read_and_what_is_empty_is_not_written():
    generated = {"heldBy": None, "readHere": 0, "rows": 9, "lateRows": 3, "bySplit": {"orders-0": [NOON, "idle"]}}
    completeness = {"until": NOON, "heldFrom": None}
    for written in (
        report(),
        report(watermark=None, heldBy=None, mostBehind=None, spread=None),
        report(generated=generated, completeness=completeness, badRecordsTotal=0, metrics={"a": 1, "b": 0.5}),
    ):
        assert SourceProgress.from_json(written).to_json() == written
    assert typed(orders={"0": 3}, overshoot=0, metrics={}) == typed()


def test_lags_up_to_the_commit_are_known_once_it_is():
    assert (typed().current_emit_event_time_lag, typed().watermark_lag) == (None, None)
    said = SourceProgress.from_json(report(), START + timedelta(hours=3))
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (timedelta(hours=3), timedelta(hours=3, minutes=1))
    said = SourceProgress.from_json(report(), START - timedelta(hours=1))  # the event times are ahead of the clock
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (timedelta(), timedelta())
    said = SourceProgress.from_json(report(oldestEventTime=None, watermark=None), START)
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (None, None)
