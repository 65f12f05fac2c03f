"""The progress of a query's sources, typed."""

import json
from datetime import datetime, timedelta, timezone

import pytest

from tests.support.progresses import HOUR, MINUTE, NOON, report
from tidegate import SourceProgress
from tidegate.alignment.budget import Cost
from tidegate.alignment.plan import Plan, Progress, SplitPlan
from tidegate.alignment.splits import SplitRange
from tidegate.alignment.states import SplitState
from tidegate.enumerators.planning.source_progress import ProgressReporter
from tidegate.sources.progress.source import MostBehind, SplitDetail

START = datetime(2023, 11, 15, 12, tzinfo=timezone.utc)


def typed(**fields):
    return SourceProgress.from_json(report(**fields))


def test_times_are_utc_and_durations_have_no_unit_to_know():
    said = typed(paused={"orders-2": NOON}, secondsToDeletion={"orders-2": 340})
    assert (said.low, said.bound, said.watermark) == (
        START,
        START + timedelta(hours=1),
        START - timedelta(minutes=1),
    )
    assert said.event_time_lag == timedelta(hours=5)
    assert said.most_behind == MostBehind("orders-0", 900, timedelta(hours=5))
    assert said.paused == {"orders-2": START}
    assert said.time_to_deletion == {"orders-2": timedelta(seconds=340)}
    assert said.by_split == {"orders-0": SplitDetail("reading", START + timedelta(hours=1), 900)}


def test_what_there_is_not_is_none_and_many_splits_are_not_told_of_each():
    absent = dict.fromkeys(("watermark", "bound", "low", "heldBy", "mostBehind"))
    said = SourceProgress.from_json({k: v for k, v in report(**absent).items() if k != "bySplit"})
    assert (said.watermark, said.bound, said.low, said.held_by, said.most_behind) == (None,) * 5
    assert said.by_split == {}


@pytest.mark.parametrize(("time_ms", "year"), [(2**63 - 1, 9999), (-(2**63), 1)])
def test_a_time_that_python_cannot_hold_becomes_its_limit(time_ms, year):
    assert typed(bound=time_ms).bound.year == year
    assert typed(eventTimeLag=2**63 - 1).event_time_lag == timedelta.max


def test_a_report_as_planners_write_it_is_read_whole():
    split = "orders-0"
    planned = Plan(
        ranges={split: SplitRange(split, 0, 5)},
        progress=Progress({split: 5}, NOON + HOUR, NOON - MINUTE, late=frozenset([split])),
        low_ms=NOON,
        held_by=split,
        group_bound_ms=None,
        next_low_ms=NOON + HOUR,
        splits={split: SplitPlan(SplitState.READING, NOON + HOUR, late_rows=3)},
        oldest_ms=NOON - MINUTE,
    )
    written = ProgressReporter("kafka").describe(
        planned, {split: 9}, NOON + 2 * HOUR, {split: 60.0}, {"lookups": 1, "peeks": 2}
    )
    assert written.keys() <= report().keys()
    said = SourceProgress.from_json(written)
    assert (said.late_rows, said.late_splits, said.rows_remaining) == (3, (split,), 4)
    assert said.event_time_lag == timedelta(hours=1)
    assert said.planned_rows == 5
    assert said.current_fetch_event_time_lag == timedelta(hours=2, minutes=1)
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (None, None)
    committed = START + timedelta(hours=3)
    said = SourceProgress.from_json(written, committed)
    assert said.current_emit_event_time_lag == timedelta(hours=3, minutes=1)
    assert said.watermark_lag == timedelta(hours=3, minutes=1)
    assert (said.num_files_outstanding, said.num_bytes_outstanding, said.approximate_queue_size) == (0, 0, None)
    said = SourceProgress.from_json(written, START - timedelta(hours=1))  # then the event times are ahead of the clock
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (timedelta(), timedelta())
    of_objects = ProgressReporter("s3").describe(
        planned,
        {split: 9},
        NOON,
        {},
        {"lookups": 1, "peeks": 2},
        lambda ranges: Cost(4, 400, 2) if ranges else Cost(0, 0, 0),
        metrics={"numFilesLeftOut": 3, "approximateQueueSize": 7},
        overshoot_ms=HOUR,
    )
    said = SourceProgress.from_json(json.loads(json.dumps(of_objects)))
    assert (said.planned_rows, said.num_files_outstanding, said.num_bytes_outstanding) == (4, 2, 400)
    assert (said.approximate_queue_size, said.metrics["numFilesLeftOut"]) == (7, 3)
    assert (said.overshoot, typed().overshoot) == (timedelta(hours=1), timedelta(0))
