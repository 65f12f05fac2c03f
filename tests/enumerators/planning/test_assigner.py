"""Tasks of a batch: they are even and few, and cover exactly the planned ranges."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.planning.assigner import TaskSizes, assign

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
