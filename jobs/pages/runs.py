"""Splits Spark's progress of a query into runs of its sources.  Pure logic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.sources.progress.query import QueryProgress


class PlannedBatch(NamedTuple):
    """One batch of a query, as one of its sources planned it."""

    query: QueryProgress
    progress: SourceProgress
    rows: int


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The progress that Spark kept of one source of a query.

    batches: the batches in which the query read something, from this source or another.
    """

    name: str
    batches: tuple[PlannedBatch, ...]
    last: SourceProgress


def source_runs(progresses: Sequence[QueryProgress]) -> list[SourceRun]:
    """Return a run for each tidegate source, in Spark's order, from one run's progresses, the oldest first."""
    batches: dict[int, list[PlannedBatch]] = {}
    last: dict[int, SourceProgress] = {}
    for entry in progresses:
        planned = {
            # Spark's count depends on the sink, which may skip rows or read them twice.
            index: PlannedBatch(entry, source.progress, source.progress.planned_rows if source.moved else 0)
            for index, source in enumerate(entry.sources)
            if source.progress is not None
        }
        last |= {index: batch.progress for index, batch in planned.items()}
        if any(batch.rows for batch in planned.values()):
            for index, batch in planned.items():
                batches.setdefault(index, []).append(batch)
    return [SourceRun(shown.reads, tuple(batches.get(index, ())), shown) for index, shown in sorted(last.items())]
