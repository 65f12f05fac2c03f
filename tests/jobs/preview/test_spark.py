"""The model of Spark, against a simulation of every single row."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.jobs.demo.run import skewed_history
from tidegate.jobs.preview.history import History, Slice
from tidegate.jobs.preview.spark import account, by_backlog

MINUTE_MS = 60_000


@st.composite
def histories(draw, least_ms=-50):
    """Draw splits of a few slices, in which times go up, down, or stand still."""
    found = {}
    for number in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, 5))
        slices = []
        for _ in range(draw(st.integers(1, 4))):
            times = [draw(st.integers(least_ms, 5_000)) for _ in range(2)]
            slices.append(Slice(start, start + draw(st.integers(1, 12)), *times))
            start = slices[-1].end
        lags = draw(st.sampled_from([((0, 1.0),), ((0, 0.5), (300, 0.5))]))
        found[f"t-{number}"] = History(tuple(slices), lags)
    return found


def row_by_row(splits, limit, delay_ms, window_ms):
    """Return the rows of each batch, and the dropped rows of each split, by looking at each row."""
    queues = {}
    for name, history in splits.items():
        queue = queues[name] = []
        for part in history.slices:
            rows = part.end - part.start
            queue += [part.begin_ms + (part.end_ms - part.begin_ms) * row // rows for row in range(rows)]
    watermarks, greatest = [0, 0], None
    sizes, lost = [], dict.fromkeys(splits, 0.0)
    while any(queues.values()):
        waiting = {name: len(queue) for name, queue in queues.items() if queue}
        total = sum(waiting.values())
        size = 0
        for name, number in waiting.items():
            share = number if limit is None else limit * (number / total)
            taken = int(share) if share >= 1 else 1
            batch, queues[name] = queues[name][:taken], queues[name][taken:]
            size += len(batch)
            for time_ms in batch:
                greatest = max(time_ms, time_ms if greatest is None else greatest)
                for lag_ms, part in splits[name].lags:
                    window_end = (time_ms - lag_ms) - (time_ms - lag_ms) % window_ms + window_ms
                    late = window_end <= watermarks[-2]
                    lost[name] += part * late
        sizes.append(size)
        watermarks.append(max(watermarks[-1], greatest - delay_ms))
    return tuple(sizes), {name: round(number) for name, number in lost.items()}


@given(histories(), st.none() | st.integers(1, 30), st.integers(0, 2_000), st.integers(1, 700))
def test_batches_and_dropped_rows_are_those_of_a_simulation_of_every_row(splits, limit, delay_ms, window_ms):
    found = account(splits, by_backlog(splits, limit), delay_ms, window_ms)
    assert (found.rows, found.lost) == row_by_row(splits, limit, delay_ms, window_ms)


@given(histories(least_ms=0), st.integers(1, 30), st.integers(1, 700))
def test_the_least_delay_loses_nothing_and_one_millisecond_less_loses_a_row(splits, limit, window_ms):
    whole = {name: replace(history, lags=((0, 1.0),)) for name, history in splits.items()}
    least_ms = account(whole, by_backlog(whole, limit), 0, window_ms).least_delay_ms
    _, lost = row_by_row(whole, limit, least_ms, window_ms)
    assert sum(lost.values()) == 0 or least_ms == 0
    if least_ms > 0:
        _, lost = row_by_row(whole, limit, least_ms - 1, window_ms)
        assert sum(lost.values()) > 0


def demonstration(rows):
    """Return the demonstration's topic with a number of rows."""
    splits = {}
    for number, times in enumerate(skewed_history(rows)):
        step_ms = int(times[-1] - times[-2])
        splits[f"orders-{number}"] = History((Slice(0, len(times), int(times[0]), int(times[-1]) + step_ms),))
    return splits


def test_the_demonstration_loses_what_it_was_measured_to_lose():
    splits = demonstration(3_300_000)
    found = account(splits, by_backlog(splits, 200_000), 10 * MINUTE_MS, 5 * MINUTE_MS)
    assert abs(sum(found.lost.values()) / 2_584_283 - 1) < 0.02
    assert not found.lost["orders-3"]
    assert sum(found.rows) == 3_300_000
