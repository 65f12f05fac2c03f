"""The positions of the splits of a run in event time, from Spark's progress."""

import pytest

from tests.support.progresses import HOUR, MINUTE, NOON, one, progress, report, run, source, typed
from tidegate.jobs.pages.trace import source_runs, trace, with_axis


def runs_of(progresses):
    return source_runs([typed(entry) for entry in progresses])


def trace_of(progresses):
    (run,) = runs_of(progresses)
    return with_axis(trace(run.batches))


def test_splits_are_in_the_order_of_their_numbers():
    shown, _ = trace_of(run(12))
    assert list(shown.reached) == [f"orders-{number}" for number in range(12)]


def test_a_line_begins_at_the_low_and_goes_through_the_next_records():
    shown, _ = trace_of(run(3, batches=3))
    assert shown.reached["orders-0"] == [NOON, NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR - MINUTE]
    assert shown.reached["orders-2"][:2] == [NOON + 8 * HOUR] * 2
    assert shown.paused["orders-2"] == {0, 1, 2}


def test_a_split_that_is_read_to_its_end_stands_at_the_watermark_unless_it_is_idle():
    first = one(0, bySplit={"orders-0": ["reading", NOON, 5]})
    states = [("reading", 2), ("caught up", 3), ("idle", 4), ("finished", 5)]
    later = [
        one(number, watermark=NOON + number * HOUR, bySplit={"orders-0": [state, None, 0]}) for state, number in states
    ]
    shown, _ = trace_of([first, *later])
    assert shown.reached["orders-0"] == [NOON, NOON, *(NOON + n * HOUR for n in (2, 3, 3, 3))]


def test_a_split_that_comes_later_is_a_line_from_there_on():
    both = {"orders-0": ["reading", NOON + HOUR, 5], "orders-1": ["reading", NOON, 5]}
    shown, _ = trace_of([one(0), one(1, bySplit=both)])
    assert shown.reached["orders-1"] == [None, None, NOON]


def test_a_split_that_never_delivered_is_no_line():
    shown, _ = trace_of([one(0, bySplit={"orders-0": ["reading", NOON, 5], "orders-1": ["caught up", None, 0]})])
    assert list(shown.reached) == ["orders-0"]


def test_batches_that_read_nothing_are_left_out_but_what_they_say_last_is_not():
    run = runs_of([one(3), one(4), one(4, rows=0, rowsRemaining=7)])[0]
    assert [batch.query.number for batch in run.batches] == [3, 4]
    assert run.last.rows_remaining == 7


def test_rows_that_were_planned_and_then_put_off_are_of_no_batch():
    (run,) = runs_of([one(0), progress(1, source(report(plannedRows=7), moves=False))])
    assert [batch.rows for batch in run.batches] == [10]


def test_a_bound_far_beyond_all_splits_does_not_flatten_the_picture():
    shown, axis = trace_of([one(0), one(1, bound=NOON + 24 * 365 * HOUR, watermark=-(2**62))])
    assert axis.end - axis.begin < 4 * HOUR
    assert shown.stairs["bound"] == [NOON + HOUR, None]
    assert shown.stairs["source-watermark"] == [NOON - MINUTE, None]


@pytest.mark.parametrize("splits", [40, 1_000])
def test_the_median_is_between_the_slowest_and_the_fastest(splits):
    shown, axis = trace_of(run(splits))
    lines = (shown.reached[name] for name in ("slowest", "median", "fastest"))
    times = [*zip(*lines, strict=True)]
    assert times[3][0] < times[3][1] < times[3][2]
    assert all(axis.begin <= slowest <= median <= fastest <= axis.end for slowest, median, fastest in times)


def test_of_many_splits_only_the_slowest_begins_at_the_low():
    shown, _ = trace_of(run(1_000))
    begins = {name: times[0] for name, times in shown.reached.items()}
    assert begins == {"slowest": NOON, "median": NOON + HOUR + 18 * MINUTE, "fastest": NOON + 8 * HOUR}
