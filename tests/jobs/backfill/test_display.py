import io

import pytest
from rich.console import Console

from tests.jobs.samples import HOUR, batch
from tests.support.progresses import progress, source, typed
from tidegate.jobs.backfill.display import RunDisplay


def shown(*batches, every_s=10.0):
    """Return the lines after some batches, between which some seconds pass."""
    file, times = io.StringIO(), iter(range(0, 10_000, int(every_s)))
    with RunDisplay(Console(file=file, width=40), clock=lambda: next(times)) as display:
        for each in batches:
            display.update(each)
    return file.getvalue().splitlines()


def test_a_line_says_how_far_the_run_is_and_how_fast():
    (line,) = shown(batch(rows=50, left=(50, 50), bound_ms=HOUR))
    assert line.startswith("33.3 % · 50 rows · 25 rows/s · read up to 1970-01-01 01:00:00 · ")


def test_speed_is_that_of_the_recent_batches():
    assert " · 100 rows/s" in shown(batch(0, rows=100), batch(1, rows=300))[-1]


@pytest.mark.parametrize(("left", "percent"), [(3, "94.3 %"), (0, "100 %")])
def test_a_hundred_percent_is_said_only_when_nothing_is_left(left, percent):
    (line,) = shown(batch(rows=50, left=(0, left)))
    assert line.startswith(f"{percent} · 50 rows")


def test_a_batch_that_an_earlier_run_planned_leaves_the_rest_unknown():
    replayed = typed(progress(3, source(None)))
    assert shown(replayed)[0].count(" · ") == 1


def test_lines_are_rare_but_for_the_last():
    batches = [batch(number) for number in range(10)]
    assert len(shown(*batches, every_s=1)) == 2
    assert shown(*batches, batch(10, left=(0, 0)), every_s=1)[-1].startswith("100 % · ")
