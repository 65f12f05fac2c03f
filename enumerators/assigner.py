"""Packs the ranges of a batch into tasks (FLIP-27: assignSplits; here Spark schedules the tasks).

Small ranges share a task, great ones are cut.  Every range may be cut anywhere, because a reader
gives the same rows for it however it is cut.
"""

from __future__ import annotations

from collections.abc import Collection

from tidegate.alignment.splits import SplitRange
from tidegate.readers.contract import ReadTask

__all__ = ["assign"]

# A Spark task with a Python reader costs some 50 ms besides its rows (benchmarks/README.md).
_WAVES = 3  # uneven tasks level out, where there is enough to do for several tasks a core
_LARGE_TASK = 100_000  # positions
_SMALL_TASK = 10_000  # positions; less is not worth a core of its own


def assign(ranges: Collection[SplitRange], cores: int, min_tasks: int | None = None) -> list[ReadTask]:
    """Return tasks of about even length that cover ``ranges`` exactly.

    cores: how many tasks run at once.  A small batch is one task, a larger one a task for each core,
        a large one several.
    min_tasks: at least so many tasks, if there are as many positions (Spark: ``minPartitions``).
    """
    total = sum(r.end - r.start for r in ranges)
    if not total:
        return []
    wanted = max(min(cores, -(-total // _SMALL_TASK)), min(cores * _WAVES, -(-total // _LARGE_TASK)), min_tasks or 1)
    wanted = min(wanted, total)
    tasks: list[list[SplitRange]] = [[]]
    # Each task ends where the running length passes the next multiple of total / wanted.
    passed = 0
    for piece in ranges:
        start = piece.start
        while start < piece.end:
            task_end = len(tasks) * total // wanted
            if task_end <= passed:
                tasks.append([])
                continue
            end = min(piece.end, start + task_end - passed)
            tasks[-1].append(SplitRange(piece.split_id, start, end))
            passed += end - start
            start = end
    return [ReadTask(tuple(task)) for task in tasks if task]
