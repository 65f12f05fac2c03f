"""The model of Spark, against a simulation of every single row."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.jobs.demo.run import skewed_history
from tidegate.jobs.preview.seen import MOST_TIMES, History
from tidegate.jobs.preview.simulated import by_backlog, outcome

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
