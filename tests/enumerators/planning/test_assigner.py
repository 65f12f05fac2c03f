"""The tasks of a batch, and its size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import Clock, Logs, coordinator
from tidegate.alignment.budget import Budget, Cost
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.planning.assigner import TaskSizes, assign
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.pace import BatchPace, batch_note

lengths = st.lists(st.integers(1, 200_000), max_size=8)
cores = st.integers(1, 8)
min_tasks = st.none() | st.integers(1, 50)


def ranges_of(lengths):
    return [SplitRange(f"s{i}", 7 * i, 7 * i + length) for i, length in enumerate(lengths)]


def lengths_of(tasks):
    return [sum(r.end - r.start for r in task) for task in tasks]


@given(lengths, cores, min_tasks)
def test_tasks_are_even_to_one_position(lengths, cores, min_tasks):
    sizes = lengths_of(assign(ranges_of(lengths), cores, TaskSizes(min_tasks)))
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(lengths.filter(bool), cores, min_tasks)
def test_there_are_three_tasks_a_core_at_most_unless_more_are_asked_for(lengths, cores, min_tasks):
    tasks = assign(ranges_of(lengths), cores, TaskSizes(min_tasks))
    assert min(min_tasks or 1, sum(lengths)) <= len(tasks) <= max(3 * cores, min_tasks or 1)


def test_a_large_range_is_cut_into_even_tasks():
    assert lengths_of(assign(ranges_of([1_000_000]), cores=2)) == [500_000] * 2
    assert lengths_of(assign(ranges_of([6_000_000]), cores=2)) == [1_000_000] * 6


def test_ranges_are_cut_by_what_they_cost_where_positions_differ():
    """Ten objects of 100 KiB, then one of 1,000."""

    def cost(ranges):
        sizes = [100 << 10] * 10 + [1000 << 10]
        return Cost(rows=1, bytes=sum(sum(sizes[r.start : r.end]) for r in ranges.values()))

    whole = SplitRange("m", 0, 11)
    assert assign([whole], 2, cost=cost) == [(SplitRange("m", 0, 10),), (SplitRange("m", 10, 11),)]
    assert [[r.start, r.end] for (r,) in assign([whole], 4, cost=cost)] == [[0, 7], [7, 10], [10, 11]]


@given(lengths, cores, min_tasks, st.none() | st.integers(1, 300_000), st.sampled_from([0, 1, 3, 500]))
def test_tasks_cover_the_ranges_in_order_and_are_no_longer_than_allowed_whatever_positions_cost(
    lengths, cores, min_tasks, most, dearest
):
    def cost(ranges):
        rows = sum(r.end - r.start for r in ranges.values())
        return Cost(rows * min(dearest, 1), rows * 100 * (dearest if "s0" in ranges else 1))

    most = None if most is None else max(most, sum(lengths) // 1000)
    ranges = ranges_of(lengths)
    tasks = assign(ranges, cores, TaskSizes(min_tasks, most), cost)
    assert all(0 < size <= (most or size) for size in lengths_of(tasks))
    assert most is None or len(tasks) >= min(min_tasks or 1, sum(lengths))
    numbers = {r.split_id: r.start for r in ranges}
    for piece in (piece for task in tasks for piece in task):
        assert piece.start == numbers[piece.split_id]
        numbers[piece.split_id] = piece.end
    assert numbers == {r.split_id: r.end for r in ranges}


def test_rows_that_must_stay_in_one_piece_stay_so_though_fewer_are_allowed_in_a_task():
    assert lengths_of(assign(ranges_of([100]), 2, TaskSizes(max_positions=10), divisible=False)) == [100]


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
