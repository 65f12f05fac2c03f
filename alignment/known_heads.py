"""The answers of peeks: where a split's next record to align by stands, and where there is none."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.alignment.splits import Head, Positions, SplitId

__all__ = ["KnownHeads"]


@dataclass(slots=True)
class _Stretches:
    """Stretches of positions without a record to align by, in order, and the record behind each.

    starts: inclusive.
    ends: exclusive; there the record stands, if there is one.
    times_ms: of these records; None: there was none yet.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    times_ms: list[int | None] = field(default_factory=list)

    def drop(self, first: int, last: int) -> None:
        for values in (self.starts, self.ends, self.times_ms):
            del values[first:last]

    def insert(self, place: int, start: int, end: int, time_ms: int | None) -> None:
        self.starts.insert(place, start)
        self.ends.insert(place, end)
        self.times_ms.insert(place, time_ms)


class KnownHeads:
    """Remembers for each split the first record to align by, at or after whatever position was asked for.

    A long stretch of records that are left out is so looked through once, and not at every plan.
    """

    def __init__(self) -> None:
        self._splits: dict[SplitId, _Stretches] = {}

    def find(self, split: SplitId, position: int) -> Head | int:
        """Return the first record at or after a position, or the position from which on nothing is known."""
        known = self._splits.get(split)
        if known is None:
            return position
        while (place := bisect_right(known.starts, position) - 1) >= 0 and position <= known.ends[place]:
            end, time_ms = known.ends[place], known.times_ms[place]
            if time_ms is not None:
                return Head(end, time_ms)
            if position == end:
                break
            position = end
        return position

    def learn(self, split: SplitId, position: int, head: Head | None, end: int) -> None:
        """Take the answer of a peek at a position.

        end: exclusive; up to there the split was looked through where no record was found.
        """
        if head is not None:
            end = head.position
        elif end <= position:
            return
        known = self._splits.setdefault(split, _Stretches())
        first = bisect_left(known.starts, position)
        if first and known.times_ms[first - 1] is None and known.ends[first - 1] >= position:
            first -= 1
            position = known.starts[first]
        known.drop(first, bisect_left(known.starts, max(end, position + 1)))
        known.insert(first, position, end, None if head is None else head.event_time_ms)

    def first_without(self, split: SplitId, end: int) -> int:
        """Return from where on there is no record to align by before an end: the end itself where that is not known."""
        known = self._splits.get(split)
        while known is not None and (place := bisect_left(known.starts, end) - 1) >= 0 and known.ends[place] >= end:
            end = known.starts[place]
        return end

    def forget(self, split: SplitId) -> None:
        """Drop all that is known of a split."""
        self._splits.pop(split, None)

    def forget_before(self, positions: Positions) -> None:
        """Drop what lies before the positions and does not reach to them, and the splits that have none."""
        self._splits = {split: known for split, known in self._splits.items() if split in positions}
        for split, known in self._splits.items():
            known.drop(0, bisect_left(known.ends, positions[split]))

    def stretches_before(self, positions: Positions) -> Mapping[SplitId, int]:
        """Return for each split where the stretch without a record begins that reaches to its position, if any does."""
        found = {split: self.first_without(split, positions[split]) for split in self._splits if split in positions}
        return {split: start for split, start in found.items() if start < positions[split]}
