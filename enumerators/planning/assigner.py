"""Packs the ranges of a batch into tasks (FLIP-27: assignSplits; here Spark schedules the tasks).

Small ranges share a task, and large ones are cut.  A range may be cut anywhere, because the rows do not depend on cuts.
Only a watermark generator may need its rows in one piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidegate.alignment.budget import CostOf, split_rows
from tidegate.alignment.splits import SplitRange

# A Spark task with a Python reader takes some 50 ms besides its rows.
_WAVES = 3  # with several tasks per core, uneven tasks level out
_LARGE_TASK = 500_000  # rows
_SMALL_TASK = 10_000  # rows; fewer are not worth another core
_BYTES_OF_A_ROW = 100  # larger rows count as several


class TaskSizes(NamedTuple):
    """The sizes of tasks that a user asks for.

    min_tasks: the minimum number of tasks, as far as the positions can be divided (Spark: ``minPartitions``).
    max_positions: the maximum number of positions in a task, if ranges may be cut (Spark: ``maxRecordsPerPartition``).
    """

    min_tasks: int | None = None
    max_positions: int | None = None


ANY_SIZES = TaskSizes()


def assign(
    ranges: Collection[SplitRange],
    cores: int,
    sizes: TaskSizes = ANY_SIZES,
    cost: CostOf = split_rows,
    *,
    divisible: bool = True,
) -> list[tuple[SplitRange, ...]]:
    """Return the ranges of each task; tasks take about the same effort, and cover ``ranges`` exactly.

    cores: how many tasks run at once.  A small batch is one task, a larger one a task for each core,
        a large one several.
    """
    min_tasks, max_positions = sizes

    def effort(piece: SplitRange) -> int:
        piece_cost = cost({piece.split_id: piece})
        return max(piece_cost.rows, piece_cost.bytes // _BYTES_OF_A_ROW)

    positions = sum(r.end - r.start for r in ranges)
    if not positions:
        return []
    total = sum(map(effort, ranges))
    wanted = max(min(cores, -(-total // _SMALL_TASK)), min(cores * _WAVES, -(-total // _LARGE_TASK)), min_tasks or 1)
    if max_positions is not None:
        wanted = max(wanted, -(-positions // max_positions))
    wanted = min(wanted, positions)
    tasks: list[list[SplitRange]] = [[]]
    # Each task ends as near as possible to the point where the running effort passes the next multiple of total /
    # wanted.
    passed = 0
    for whole in ranges:
        left = whole
        while left.start < left.end:
            due = len(tasks) * total // wanted - passed
            taken = _nearest(left, due, effort) if divisible else left
            passed += effort(taken)
            if taken.end > taken.start:
                tasks[-1].append(taken)
            left = replace(left, start=taken.end)
            if left.start < left.end or passed >= len(tasks) * total // wanted:
                tasks.append([])
    if max_positions is None or not divisible:
        return [tuple(task) for task in tasks if task]
    return [piece for task in tasks for piece in _cut(task, max_positions)]


def _cut(task: Sequence[SplitRange], max_positions: int) -> Iterator[tuple[SplitRange, ...]]:
    """Yield the fewest tasks of equal size that have at most a number of positions."""
    positions = sum(r.end - r.start for r in task)
    pieces = -(-positions // max_positions)
    ranges, passed = list(task), 0
    for number in range(1, pieces + 1):
        piece: list[SplitRange] = []
        while ranges and passed < number * positions // pieces:
            left = ranges.pop(0)
            end = min(left.end, left.start + number * positions // pieces - passed)
            piece.append(replace(left, end=end))
            passed += end - left.start
            if end < left.end:
                ranges.insert(0, replace(left, start=end))
        yield tuple(piece)


def _nearest(left: SplitRange, due: int, effort: Callable[[SplitRange], int]) -> SplitRange:
    """Return the beginning of a range whose effort is nearest to the one due; the whole range if its effort is less."""

    def up_to(end: int) -> SplitRange:
        return replace(left, end=end)

    if effort(left) <= due:
        return left
    ends = range(left.start + 1, left.end + 1)
    reaching = left.start + 1 + bisect_left(ends, due, key=lambda end: effort(up_to(end)))
    before = up_to(reaching - 1)
    short = due - (effort(before) if before.end > before.start else 0)
    return before if short < effort(up_to(reaching)) - due else up_to(reaching)
