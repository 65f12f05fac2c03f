"""Remembers the answers of peeks: where the next record to align by is, and where there is none."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.alignment.splits import Head, Positions, SplitId

__all__ = ["KnownHeads"]


@dataclass(slots=True)
class _Stretches:
    """Stretches of positions without a record to align by, in order, and the record behind each.

    starts: inclusive.
    ends: exclusive; the record is there, if there is one.
    times_ms: of these records; None: there was none yet.

    There is at least one.
    """

    starts: list[int]
    ends: list[int]
    times_ms: list[int | None]

    def drop(self, first: int, last: int) -> None:
        for values in (self.starts, self.ends, self.times_ms):
            del values[first:last]

    def insert(self, place: int, start: int, end: int, time_ms: int | None) -> None:
        self.starts.insert(place, start)
        self.ends.insert(place, end)
        self.times_ms.insert(place, time_ms)


class KnownHeads:
    """Remembers for each split the first record to align by at or after a position.

    So a long stretch of ignored records is searched once, and not at every plan.
    """

    def __init__(self) -> None:
        self._splits: dict[SplitId, _Stretches] = {}

    def find(self, split: SplitId, position: int) -> Head | int:
        """Return the first record at or after a position, or the first position of which nothing is known."""
        stretches = self._splits.get(split)
        if stretches is None:
            return position
        while (place := bisect_right(stretches.starts, position) - 1) >= 0 and position <= stretches.ends[place]:
            end, time_ms = stretches.ends[place], stretches.times_ms[place]
            if time_ms is not None:
                return Head(end, time_ms)
            if position == end:
                break
            position = end
        return position

    def learn(self, split: SplitId, position: int, head: Head | None, end: int) -> None:
        """Take the answer of a peek at a position.

        end: exclusive; where no record was found, the split was searched up to there.
        """
        if head is not None:
            end = head.position
        elif end <= position:
            return
        time_ms = None if head is None else head.event_time_ms
        stretches = self._splits.get(split)
        if stretches is None:
            self._splits[split] = _Stretches([position], [end], [time_ms])
            return
        first = bisect_left(stretches.starts, position)
        if first and stretches.times_ms[first - 1] is None and stretches.ends[first - 1] >= position:
            first -= 1
            position = stretches.starts[first]
        stretches.drop(first, bisect_left(stretches.starts, max(end, position + 1)))
        stretches.insert(first, position, end, time_ms)

    def first_without(self, split: SplitId, end: int) -> int:
        """Return the begin of the stretch without a record that reaches to an end; the end if there is none."""
        spans = self._splits.get(split)
        if spans is None:
            return end
        while (place := bisect_left(spans.starts, end) - 1) >= 0 and spans.ends[place] >= end:
            end = spans.starts[place]
        return end

    def forget(self, split: SplitId) -> None:
        """Drop all that is known of a split."""
        self._splits.pop(split, None)

    def forget_before(self, positions: Positions) -> None:
        """Drop what ends before the positions, and the splits that have no position."""
        self._splits = {
            split: stretches
            for split, stretches in self._splits.items()
            if split in positions and stretches.ends[-1] >= positions[split]
        }
        for split, stretches in self._splits.items():
            if stretches.ends[0] < positions[split]:
                stretches.drop(0, bisect_left(stretches.ends, positions[split]))

    def stretches_before(self, positions: Positions) -> Mapping[SplitId, int]:
        """Return for each split the begin of the stretch without a record that reaches to its position, if any."""
        begins = {
            split: self.first_without(split, positions[split])
            for split, stretches in self._splits.items()
            if split in positions and stretches.starts[0] < positions[split]
        }
        return {split: start for split, start in begins.items() if start < positions[split]}
