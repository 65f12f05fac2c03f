import pytest

from tests.jobs.samples import HISTORY, HOUR, batch
from tests.support.progresses import progress, source, typed
from tidegate.jobs.backfill.standing import standing
from tidegate.jobs.run_extent import Stretch


def test_before_the_first_batch_all_is_left():
    now = standing(HISTORY, [], 0)
    assert (now.at_ms, now.done_ms, now.left_ms, now.rows_left) == (0, 0, 4 * HOUR, 150)


def test_a_resumed_run_begins_where_the_last_one_ended():
    rest = {"orders-0": Stretch(100, 150, 3 * HOUR, 4 * HOUR)}
    assert standing(rest, [], 0, 0).headline == "75.0 % · 1970-01-01 03:00:00 · 3 h done, 1 h left"
    at_half_past = batch(next_ms=(3 * HOUR + HOUR // 2, None), left=(25, 0))
    assert standing(rest, [at_half_past], 25, 0).headline.startswith("87.5 % · ")


def test_a_run_stands_where_its_slowest_split_does():
    now = standing(HISTORY, [batch(next_ms=(HOUR, 2 * HOUR))], 50)
    assert (now.done_ms, now.left_ms) == (HOUR, 3 * HOUR)
    assert now.slowest == ("orders-0", HOUR)
    assert now.paused == ("orders-1",)


def test_after_the_last_batch_nothing_is_left():
    now = standing(HISTORY, [batch(next_ms=(None, None), left=(0, 0))], 150)
    assert (now.left_ms, now.slowest) == (0, None)
    assert now.headline == "100 % · 1970-01-01 04:00:00 · 4 h done, 0 s left"


def test_a_batch_that_an_earlier_run_planned_leaves_the_run_where_it_stood():
    replayed = typed(progress(3, source(None)))
    began = standing(HISTORY, [replayed], 50)
    assert began.headline == "0 % · 1970-01-01 00:00:00 · 0 s done, 4 h left"
    assert (began.rows, began.rows_left) == (50, 150)
    assert standing(HISTORY, [batch(), replayed], 100).headline == standing(HISTORY, [batch()], 50).headline


@pytest.mark.parametrize(("left", "percent"), [(3, "99.9 %"), (0, "100 %")])
def test_a_hundred_percent_is_said_only_when_nothing_is_left(left, percent):
    at_the_end = batch(next_ms=(None, 4 * HOUR), left=(0, left))
    assert standing(HISTORY, [at_the_end], 147).headline.startswith(f"{percent} · 1970-01-01 04:00:00")


def test_where_all_records_have_one_time_their_number_tells():
    at_once = {"orders-0": Stretch(0, 200, HOUR, HOUR)}
    said = batch(by_split={"orders-0": ["reading", HOUR, 150]}, left=[150])
    assert standing(at_once, [said], 50).headline.startswith("25.0 % · ")


def test_speed_is_that_of_the_recent_batches():
    assert standing(HISTORY, [batch(0, rows=100), batch(1, rows=300)], 1_000_000).rows_per_s == 100


def test_beyond_a_hundred_splits_the_bound_tells():
    now = standing(HISTORY, [batch(by_split={}, left=[100], bound_ms=3 * HOUR)], 50)
    assert (now.done_ms, now.slowest) == (3 * HOUR, None)


def test_disorder_before_the_beginning_is_no_negative_progress():
    assert standing(HISTORY, [batch(next_ms=(-HOUR, HOUR))], 1).done_ms == 0


def test_without_any_event_time_rows_alone_are_told():
    now = standing({}, [batch(rows=50, left=(0, 7))], 50)
    assert (now.headline, now.rows, now.rows_left) == ("no event time is known", 50, 7)
    assert standing({}, [], 0).headline == "no event time is known"


def test_details_name_the_first_paused_splits_only():
    names = [f"orders-{i}" for i in range(5)]
    now = standing(HISTORY, [batch(by_split={name: ["paused", HOUR, 9] for name in names}, left=[9])], 1)
    assert now.details.endswith("paused orders-0, orders-1, orders-2 and 2 more")
