"""What preview predicts of both readers, against simulations of every row, and what it advises."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.streams import HOUR, MINUTE, NOON, even_times
from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.splits import Head
from tidegate.jobs.demo.run import skewed_history
from tidegate.jobs.preview.advice import delay, remarks
from tidegate.jobs.preview.findings import aligned_histories, by_backlog, outcome
from tidegate.jobs.preview.seen import MOST_TIMES, History, Seen
from tidegate.jobs.preview.topics import Curve
from tidegate.sources.options import parse_duration

MINUTE_MS = 60_000


@st.composite
def histories(draw, least_ms=-50):
    """Draw a few splits, each with an event time for every row."""
    found, most_ms = {}, draw(st.sampled_from([30, 1_000]))
    for number in range(draw(st.integers(1, 4))):
        start, times = draw(st.integers(0, 5)), draw(st.lists(st.integers(least_ms, most_ms), min_size=6, max_size=40))
        found[f"t-{number}"] = History(start, start + len(times), np.array(times))
    return found


def row_by_row(splits, limit, delay_ms, window_ms):
    """Return rows by batch, dropped rows by split, and the most windows in state, by looking at each row."""
    queues = {name: history.times_ms.tolist() for name, history in splits.items()}
    watermarks, greatest = [0, 0], -100
    sizes, lost, windows, most = [], dict.fromkeys(splits, 0), set(), 0
    while any(queues.values()):
        waiting = {name: len(queue) for name, queue in queues.items() if queue}
        total, size = sum(waiting.values()), 0
        for name, number in waiting.items():
            share = number if limit is None else limit * (number / total)
            taken = int(share) if share >= 1 else 1
            batch, queues[name] = queues[name][:taken], queues[name][taken:]
            size += len(batch)
            for time_ms in batch:
                greatest = max(time_ms, greatest)
                end_ms = time_ms - time_ms % window_ms + window_ms
                lost[name] += end_ms <= watermarks[-2]
                windows |= {end_ms} if end_ms > watermarks[-2] else set()
        sizes.append(size)
        windows = {end_ms for end_ms in windows if end_ms > watermarks[-1]}
        most = max(most, len(windows))
        watermarks.append(max(watermarks[-1], greatest - delay_ms))
    return tuple(sizes), lost, most


@example({"t-0": History(0, 40, np.arange(40) * 10)}, 1, 300, 10)
@given(histories(), st.none() | st.integers(1, 8), st.integers(0, 300), st.integers(1, 100))
def test_batches_and_dropped_rows_are_those_of_a_simulation_of_every_row(splits, limit, delay_ms, window_ms):
    found = outcome(splits, by_backlog(splits, limit), delay_ms, window_ms)
    rows, lost, windows = row_by_row(splits, limit, delay_ms, window_ms)
    assert (found.rows, found.lost) == (rows, lost)
    assert windows <= found.open_windows(delay_ms, window_ms)


@given(histories(least_ms=0), st.integers(1, 8), st.integers(1, 100))
def test_the_least_delay_loses_nothing_and_one_millisecond_less_loses_a_row(splits, limit, window_ms):
    least_ms = outcome(splits, by_backlog(splits, limit), 0, window_ms).least_delay_ms
    _, lost, _ = row_by_row(splits, limit, least_ms, window_ms)
    assert sum(lost.values()) == 0 or least_ms == 0
    if least_ms > 0:
        _, lost, _ = row_by_row(splits, limit, least_ms - 1, window_ms)
        assert sum(lost.values()) > 0


def demonstration(rows, most_times=1_000_000_000):
    """Return the demonstration's topic with a number of rows."""
    every = {f"orders-{number}": times for number, times in enumerate(skewed_history(rows))}
    return {s: History(0, len(times), times[:: -(-len(times) // most_times)]) for s, times in every.items()}


def test_the_demonstration_loses_what_it_was_measured_to_lose():
    splits = demonstration(3_300_000, most_times=MOST_TIMES)
    found = outcome(splits, by_backlog(splits, 200_000), 10 * MINUTE_MS, 5 * MINUTE_MS)
    assert abs(sum(found.lost.values()) / 2_584_283 - 1) < 0.02
    assert not found.lost["orders-3"]
    assert sum(found.rows) == 3_300_000
    assert 12 * 19 < found.open_windows(found.least_delay_ms, 5 * MINUTE_MS) <= 12 * 24 + 2


BEGIN = 7


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=60), st.booleans())
def test_each_gap_holds_only_rows_that_are_older_than_it_says(times, ordered):
    times = sorted(times) if ordered else times
    curve, looks = Curve(BEGIN, BEGIN + len(times), times[0], max(times)), 0
    while (time_ms := curve.question) is not None:
        first = next((place for place, at_ms in enumerate(times) if at_ms >= time_ms), None)
        curve.learn(None if first is None else Head(BEGIN + first, times[first]))
        looks += 1
    assert looks <= 200
    assert [gap.start for gap in curve.gaps[1:]] == [gap.end for gap in curve.gaps[:-1]]
    assert (curve.gaps[0].start, curve.gaps[-1].end) == (BEGIN, BEGIN + len(times))
    for gap in curve.gaps:
        rows = times[gap.start - BEGIN : gap.end - BEGIN]
        assert rows[0] == gap.start_ms
        assert max(rows) < gap.before_ms
        assert gap.is_unsure or gap.rows < 2


def test_a_marker_after_all_records_makes_the_index_blind():
    curve = Curve(0, 1_000, 5, 900_000)
    curve.learn(Head(40, 10**12))
    assert [gap.is_unsure for gap in curve.gaps] == [True]
    assert curve.question is None


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


HOUR_MS = 60 * MINUTE_MS


@given(histories(least_ms=0), st.integers(1, 2_000), st.none() | st.integers(1, 30))
def test_every_row_is_read(splits, drift_ms, limit):
    found = outcome(splits, aligned_histories(splits, drift_ms, Budget(rows=limit)), MINUTE_MS, 5 * MINUTE_MS)
    assert sum(found.rows) == sum(history.end - history.start for history in splits.values())


def test_an_aligned_back_fill_of_the_demonstration_loses_nothing_with_a_minute():
    splits = demonstration(330_000)
    found = outcome(splits, aligned_histories(splits, HOUR_MS, UNLIMITED), MINUTE_MS, 5 * MINUTE_MS)
    assert sum(found.rows) == 330_000
    assert 24 <= len(found.rows) <= 26
    assert sum(found.lost.values()) == 0
    assert found.least_delay_ms <= MINUTE_MS
    assert found.lead_ms <= HOUR_MS


def test_the_row_limit_makes_smaller_batches():
    splits = demonstration(33_000)
    found = outcome(splits, aligned_histories(splits, HOUR_MS, Budget(rows=500)), MINUTE_MS, 5 * MINUTE_MS)
    assert max(found.rows) <= 500
    assert (sum(found.rows), sum(found.lost.values())) == (33_000, 0)
