"""What a preview says of each split, and its advice."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.streams import HOUR, MINUTE, NOON, even_times
from tidegate.alignment.budget import UNLIMITED
from tidegate.jobs.preview.advice import delay, remarks
from tidegate.jobs.preview.seen import History, Seen
from tidegate.sources.options import parse_duration

DAY = 24 * HOUR


@given(st.integers(0, 10**10))
def test_a_delay_is_shown_no_smaller_than_it_is(least_ms):
    least = timedelta(milliseconds=least_ms)
    shown = parse_duration(delay(least))
    assert least <= shown <= least * 1.1


def rows(begin, end, number=500):
    """Return the event times of rows in some hours of the day."""
    return even_times(NOON + begin * HOUR, NOON + end * HOUR, number)


def remarks_beside_a_full_day(times, **known):
    """Return what is said of some rows beside a split that has rows over the whole day, of which nothing is said."""
    of_history = {name: known.pop(name) for name in ("disorder_ms", "densities") if name in known}
    histories = {"t-0": History(0, 1_000_000, rows(0, 24, 1_000))}
    if len(times):
        histories["t-1"] = History(0, len(times), np.asarray(times), **of_history)
    seen = Seen(
        histories=histories,
        by_spark=lambda _: iter(()),
        planned=histories,
        by_tidegate=lambda *_: iter(()),
        budget=UNLIMITED,
        units=1,
        bytes_per_row=0,
        now_ms=NOON + DAY,
        **known,
    )
    assert remarks(seen, "t-0") == []
    return remarks(seen, "t-1")


@pytest.mark.parametrize(
    ("times", "known", "said"),
    [
        (rows(0, 24), {}, []),
        ([], {}, ["empty"]),
        (rows(5, 24), {}, ["begins 5 h after the first"]),
        (rows(0, 21), {}, ["quiet for the last 3 h 1 min"]),
        ([*rows(0, 1, 60), *rows(9, 24)], {}, ["a gap of 8 h 1 min from 2023-11-15 12:59:00"]),
        ([*rows(0, 24), NOON + 3 * DAY], {}, ["records from the future, up to 2023-11-18 12:00:00"]),
        ([0, *rows(0, 24)], {}, ["records at 0"]),
        (rows(0, 24), {"disorder_ms": 90 * MINUTE}, ["out of order by up to 1 h 30 min, by samples"]),
        (rows(0, 24), {"densities": 0.25}, ["25.0 % of the offsets hold a record (compaction, transactions)"]),
        (
            rows(0, 24),
            {"blind": ["t-1"]},
            ["Kafka's index does not show the times of these rows: figures come from samples"],
        ),
        (
            rows(5, 24),
            {"disorder_ms": HOUR, "are_objects": True, "notes": {"t-1": ["from in/5.parquet"]}},
            ["from in/5.parquet", "up to 1 h behind earlier objects"],
        ),
    ],
)
def test_what_is_remarkable_about_a_split_is_said(times, known, said):
    assert remarks_beside_a_full_day(times, **known) == said
