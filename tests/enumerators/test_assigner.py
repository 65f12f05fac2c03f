"""Tasks of a batch: even, few, and covering exactly what was planned."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.assigner import assign

lengths = st.lists(st.integers(1, 200_000), max_size=8)
cores = st.integers(1, 8)
min_tasks = st.none() | st.integers(1, 50)


def ranges_of(lengths):
    return [SplitRange(f"s{i}", 7 * i, 7 * i + length) for i, length in enumerate(lengths)]


def lengths_of(tasks):
    return [sum(r.end - r.start for r in task.ranges) for task in tasks]


@given(lengths, cores, min_tasks)
def test_tasks_cover_the_ranges_exactly_and_in_order(lengths, cores, min_tasks):
    ranges = ranges_of(lengths)
    pieces = [piece for task in assign(ranges, cores, min_tasks) for piece in task.ranges]
    for whole in ranges:
        own = [piece for piece in pieces if piece.split_id == whole.split_id]
        assert [piece.start for piece in own] == [whole.start, *(piece.end for piece in own[:-1])]
        assert own[-1].end == whole.end


@given(lengths, cores, min_tasks)
def test_tasks_are_even_to_one_position(lengths, cores, min_tasks):
    sizes = lengths_of(assign(ranges_of(lengths), cores, min_tasks))
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(lengths.filter(bool), cores, min_tasks)
def test_there_are_three_tasks_a_core_at_most_unless_more_are_asked_for(lengths, cores, min_tasks):
    tasks = assign(ranges_of(lengths), cores, min_tasks)
    assert min(min_tasks or 1, sum(lengths)) <= len(tasks) <= max(3 * cores, min_tasks or 1)


def test_a_batch_of_medium_size_is_a_task_for_each_core():
    assert lengths_of(assign(ranges_of([100_000, 60_000]), cores=4)) == [40_000] * 4


def test_small_ranges_share_a_task():
    assert len(assign(ranges_of([10] * 100), cores=4)) == 1


def test_a_large_range_is_cut_into_even_tasks():
    assert lengths_of(assign(ranges_of([600_000]), cores=2)) == [100_000] * 6


def test_nothing_gives_no_task():
    assert assign([], cores=4, min_tasks=3) == []
