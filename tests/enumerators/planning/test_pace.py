"""Batches that size themselves, as the coordinator plans them and a listener measures them."""

import pytest

from tests.support.logs import Clock, Logs, coordinator
from tidegate.alignment.budget import Budget
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.pace import BatchPace, batch_note


class Sink:
    """Reports the durations of batches, as Spark's listener does."""

    def __init__(self, clock, rows_per_s):
        self.clock, self.rows_per_s, self.note = clock, rows_per_s, None

    def run(self, end, rows, *, listened=True):
        seconds = 0.1 + rows / self.rows_per_s
        self.clock.sleep(seconds)
        if listened:
            self.note = batch_note(end, seconds)
        return seconds


@pytest.mark.parametrize("listened", [True, False])
def test_batches_size_themselves_to_their_target_and_to_a_sink_that_slows_down(listened):
    clock = Clock()
    sink = Sink(clock, rows_per_s=10_000)
    pace = BatchPace(2.0, lambda: sink.note, clock.clocks)
    run = coordinator(Logs(a=range(1_000_000)), clock, pace=pace, aligned=False)
    offset, seconds = INITIAL_OFFSET, []
    for batch in range(30):
        if batch == 15:
            sink.rows_per_s /= 5
        end = run.latest_offset(offset)
        rows = end["positions"]["a"] - offset.get("positions", {}).get("a", 0)
        offset = end
        seconds.append(sink.run(end, rows, listened=listened))
    assert all(1.4 <= took <= 2.6 for took in [*seconds[10:15], *seconds[18:]])
    assert seconds[15] > 6


def test_a_note_that_comes_too_late_leaves_no_lag_behind():
    clock, notes = Clock(), []
    pace = BatchPace(1000.0, lambda: notes[-1] if notes else None, clock.clocks)
    sizes = []
    for batch in range(8):
        sizes.append(pace.rows())
        pace.begin({"v": 1, "batch": batch}, sizes[-1])
        note = batch_note({"v": 1, "batch": batch}, 0.5)
        if batch != 2:  # the note of this one is seen with the next plan but one
            notes.append(note)
    assert sizes[4:] == [2 * size for size in sizes[3:-1]]


def test_what_batches_took_bounds_them_together_with_other_limits():
    clock = Clock()
    pace = BatchPace(1000.0, lambda: None, clock.clocks)
    run = coordinator(Logs(a=range(5000)), clock, pace=pace, aligned=False)
    first = run.latest_offset(INITIAL_OFFSET)
    assert first["positions"] == {"a": 1000}
    assert run.latest_offset(first, Budget(rows=7))["positions"] == {"a": 1007}
