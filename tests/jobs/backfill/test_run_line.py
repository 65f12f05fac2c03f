import pytest

from tests.jobs.samples import HOUR, batch
from tests.support.progresses import progress, source, typed
from tidegate.jobs.backfill.run import RunLine


def shown(*batches):
    """Return the lines after some batches."""
    line = RunLine()
    return [line.after(each) for each in batches]


def test_a_line_says_how_far_the_run_is_and_how_fast():
    (line,) = shown(batch(rows=50, left=(50, 50), bound_ms=HOUR))
    assert line.startswith("33.3 % · 50 rows · 25 rows/s · read up to 1970-01-01 01:00:00 · ")


@pytest.mark.parametrize(("left", "percent"), [(3, "94.3 %"), (0, "100 %")])
def test_a_hundred_percent_is_said_only_when_nothing_is_left(left, percent):
    (line,) = shown(batch(rows=50, left=(0, left)))
    assert line.startswith(f"{percent} · 50 rows")


def test_rows_add_up_and_a_batch_that_an_earlier_run_planned_leaves_the_rest_unknown():
    replayed = typed(progress(3, source(None)))
    assert shown(replayed)[0].count(" · ") == 1
    assert "150 rows" in shown(batch(0, rows=50), batch(1, rows=100))[-1]
