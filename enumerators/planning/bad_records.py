"""Counts the bad records that executors have set aside, from their events about the ranges that they read."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidegate.alignment.splits import Positions, SplitId
from tidegate.readers.events.event import SourceEvent

__all__ = ["BadRecordTally"]


class BadRecordTally:
    """The bad records of a query, from its first batch on.

    An event may come twice, from a repeated task, or never: then its records are not counted.

    take_events: returns the events about bad records since its last call.
    """

    def __init__(self, take_events: Callable[[], Collection[SourceEvent]]) -> None:
        self._take_events = take_events
        self._counted_to: dict[SplitId, int] = {}
        self.total = 0

    def restore(self, total: int) -> None:
        """Continue from an offset.  Called once, before anything else."""
        self.total = total

    def count(self, positions: Positions) -> None:
        """Count what events said about the last batch.  Called before every plan.

        positions: the positions of all splits after that batch.
        """
        numbers = {
            (event.split_id, event.start): int(event.said["number"])
            for event in self._take_events()
            if event.start >= self._counted_to.get(event.split_id, 0)
        }
        self.total += sum(numbers.values())
        self._counted_to = dict(positions)

    def begin(self, splits: Collection[SplitId]) -> None:
        """Take in splits that are new, or hold other records than before."""
        for split in splits:
            self._counted_to.pop(split, None)
